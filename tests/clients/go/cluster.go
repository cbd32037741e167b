package main

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// cluster is a set of members as processes, with etcd's flags.
type cluster struct {
	endpoints []string
	commands  [][]string
	logs      []string
	running   []*exec.Cmd
}

// given holds the ports that freeAddress has returned.
var given sync.Map

// freeAddress returns a loopback address that nobody listens on, another one each time. Its port is
// below those that Linux gives to connections, so that it stays free while a member is down.
func freeAddress() string {
	for {
		address := fmt.Sprintf("127.0.0.1:%d", 10_000+rand.IntN(22_000))
		if _, isGiven := given.LoadOrStore(address, true); isGiven {
			continue
		}
		if listener, err := net.Listen("tcp", address); err == nil {
			listener.Close()
			return address
		}
	}
}

// startCluster starts so many members on empty folders, and waits until each serves.
func startCluster(program, folder string, count int) (*cluster, error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	cluster := &cluster{running: make([]*exec.Cmd, count)}
	var peers, names []string
	for number := range count {
		names = append(names, fmt.Sprintf("m%d", number))
		peers = append(peers, "http://"+freeAddress())
		cluster.endpoints = append(cluster.endpoints, freeAddress())
	}
	var list []string
	for number := range count {
		list = append(list, names[number]+"="+peers[number])
	}
	for number := range count {
		client, data := "http://"+cluster.endpoints[number], filepath.Join(folder, names[number])
		cluster.commands = append(cluster.commands, []string{
			program, "--name", names[number], "--data-dir", data,
			"--listen-client-urls", client, "--advertise-client-urls", client,
			"--listen-peer-urls", peers[number], "--initial-advertise-peer-urls", peers[number],
			"--initial-cluster", strings.Join(list, ","),
		})
		cluster.logs = append(cluster.logs, data+".log")
		if err := cluster.start(number); err != nil {
			return nil, err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for number := range count {
		if err := cluster.awaitMember(ctx, number); err != nil {
			return nil, err
		}
	}
	return cluster, nil
}

// start starts a member, which ends with this process.
func (cluster *cluster) start(number int) error {
	log, err := os.OpenFile(cluster.logs[number], os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	arguments := cluster.commands[number]
	command := exec.Command(arguments[0], arguments[1:]...)
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cluster.running[number] = command
	return command.Start()
}

// awaitMember waits until a member answers a linearizable read.
func (cluster *cluster) awaitMember(ctx context.Context, number int) error {
	return until(ctx, func(ctx context.Context) error {
		client, err := connect(cluster.endpoints[number : number+1])
		if err != nil {
			return err
		}
		defer client.Close()
		once, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		_, err = client.Get(once, "a")
		return err
	})
}

func (cluster *cluster) kill(number int) {
	kill(cluster.running[number])
}

func kill(command *exec.Cmd) {
	// One that has ended already is as good.
	_ = command.Process.Kill()
	_ = command.Wait()
}

// killEach kills one member after the other by SIGKILL, and so the leader at least once, and starts
// each again a moment later.
func (cluster *cluster) killEach(ctx context.Context) error {
	for number := range cluster.running {
		time.Sleep(500 * time.Millisecond)
		cluster.kill(number)
		time.Sleep(300 * time.Millisecond)
		if err := cluster.start(number); err != nil {
			return err
		}
		if err := cluster.awaitMember(ctx, number); err != nil {
			return err
		}
	}
	return nil
}

func (cluster *cluster) stop() {
	for number := range cluster.running {
		cluster.kill(number)
	}
}

// child is a process of this program that holds something.
type child struct{ command *exec.Cmd }

// startChild starts this program in a role, and waits until it says that it holds a name.
func startChild(role string, endpoints []string, name string) (*child, error) {
	command := exec.Command(os.Args[0], role, strings.Join(endpoints, ","), name)
	command.Stderr = os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	output, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := command.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(output).ReadString('\n')
	if err != nil || line != "held\n" {
		kill(command)
		return nil, fmt.Errorf("%s says %q: %v", role, line, err)
	}
	return &child{command}, nil
}

func (child *child) kill() {
	if child.command.ProcessState == nil {
		kill(child.command)
	}
}
