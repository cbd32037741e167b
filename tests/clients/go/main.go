// go-smoke runs etcd's own recipes (client/v3/concurrency: mutexes, elections, transactional
// memory) in the unmodified Go client, users with passwords, and backups, which bbolt reads, against
// one member and three.
//
// Usage: go-smoke PROGRAM FOLDER. PROGRAM takes etcd's flags: this tree's binary under the name
// etcd, or the real etcd. The last line is `N passed, N failed`.
// `go-smoke members PROGRAM FOLDER [NAME PART...]` changes the members of clusters instead, with the
// etcdctl at ETCDCTL.
//
// Holders that die are processes of their own, which are ended by SIGKILL: `go-smoke hold` and
// `go-smoke lead`.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"go.uber.org/zap"
)

type (
	client  = clientv3.Client
	session = concurrency.Session
)

// patience is how long a scenario waits for what must come: reaching it is a failure.
const patience = 60 * time.Second

// childTTL is the time to live, in seconds, of the session of a process that is ended.
const childTTL = 2

func main() {
	switch {
	case len(os.Args) == 4 && os.Args[1] == "hold":
		check(hold(strings.Split(os.Args[2], ","), os.Args[3]))
	case len(os.Args) == 4 && os.Args[1] == "lead":
		check(lead(strings.Split(os.Args[2], ","), os.Args[3]))
	case len(os.Args) >= 4 && os.Args[1] == "members":
		os.Exit(runChanges(os.Args[2], os.Args[3], os.Args[4:]))
	case len(os.Args) == 3:
		os.Exit(runAll(os.Args[1], os.Args[2]))
	default:
		check(errors.New("usage: go-smoke PROGRAM FOLDER"))
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}

// scenario is something that clients do, and what must come of it.
type scenario struct {
	name string
	run  func(ctx context.Context, cluster *cluster) error
}

// runAll runs every scenario against one member, and then against three. It returns the exit
// status.
func runAll(program, folder string) int {
	scenarios := []scenario{
		{"a lock is held by one at a time", oneAtATime},
		{"a lock that is held is not taken by TryLock", tryLock},
		{"the lock of a killed process goes to the next", nextAfterKill},
		{"an election has one leader, and observers see each", electionAndObserver},
		{"the leadership of a killed process goes to the next", leaderAfterKill},
		{"transactional memory loses nothing", conserved},
		{"a lock outlives the kill of each member", lockUnderKills},
		{"users keep their rights over the kill of each member", usersUnderKills},
		{"a user loses its rights with its password", changedPassword},
		{"a backup has the keys of each revision", backedUp},
	}
	passed, failed := 0, 0
	for _, count := range []int{1, 3} {
		cluster, err := startCluster(program, fmt.Sprintf("%s/%d", folder, count), count)
		check(err)
		for _, scenario := range scenarios {
			began := time.Now()
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			err := scenario.run(ctx, cluster)
			cancel()
			verdict := "ok"
			if err != nil {
				verdict = "FAILED: " + err.Error()
				failed++
			} else {
				passed++
			}
			took := time.Since(began).Round(time.Millisecond)
			fmt.Printf("%d members, %s, %v: %s\n", count, scenario.name, took, verdict)
		}
		cluster.stop()
	}
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	return min(failed, 1)
}

func connect(endpoints []string) (*client, error) {
	return clientv3.New(clientv3.Config{
		Endpoints:   endpoints,
		DialTimeout: 5 * time.Second,
		Logger:      zap.NewNop(),
	})
}

// withSession runs work with a session of its own, on a connection of its own.
func withSession(
	ctx context.Context, endpoints []string, ttl int,
	work func(*client, *session) error,
) error {
	client, err := connect(endpoints)
	if err != nil {
		return err
	}
	defer client.Close()
	options := []concurrency.SessionOption{concurrency.WithTTL(ttl), concurrency.WithContext(ctx)}
	session, err := concurrency.NewSession(client, options...)
	if err != nil {
		return err
	}
	err = work(client, session)
	return errors.Join(err, session.Close())
}

// inParallel runs work count times at once, and returns the errors of all.
func inParallel(count int, work func(number int) error) error {
	results := make(chan error, count)
	for number := range count {
		go func() { results <- work(number) }()
	}
	var all error
	for range count {
		all = errors.Join(all, <-results)
	}
	return all
}

// readNumber returns the number at a key, 0 if it has none.
func readNumber(ctx context.Context, client *client, key string) (int, error) {
	found, err := client.Get(ctx, key)
	if err != nil || len(found.Kvs) == 0 {
		return 0, err
	}
	return strconv.Atoi(string(found.Kvs[0].Value))
}

// expectNumber fails unless a key has this number.
func expectNumber(ctx context.Context, cluster *cluster, key string, expected int) error {
	client, err := connect(cluster.endpoints)
	if err != nil {
		return err
	}
	defer client.Close()
	number, err := readNumber(ctx, client, key)
	if err == nil && number != expected {
		err = fmt.Errorf("%s is %d, not %d", key, number, expected)
	}
	return err
}

// oneAtATime counts by reading, sleeping and writing: only the lock keeps the clients apart.
func oneAtATime(ctx context.Context, cluster *cluster) error {
	const workers, rounds = 5, 8
	err := inParallel(workers, func(int) error {
		return withSession(ctx, cluster.endpoints, 30, func(client *client, session *session) error {
			mutex := concurrency.NewMutex(session, "one-at-a-time")
			for range rounds {
				if err := mutex.Lock(ctx); err != nil {
					return err
				}
				number, err := readNumber(ctx, client, "count")
				if err != nil {
					return err
				}
				time.Sleep(5 * time.Millisecond)
				if _, err := client.Put(ctx, "count", strconv.Itoa(number+1)); err != nil {
					return err
				}
				if err := mutex.Unlock(ctx); err != nil {
					return err
				}
			}
			return nil
		})
	})
	return errors.Join(err, expectNumber(ctx, cluster, "count", workers*rounds))
}

func tryLock(ctx context.Context, cluster *cluster) error {
	return withSession(ctx, cluster.endpoints, 30, func(_ *client, one *session) error {
		return withSession(ctx, cluster.endpoints, 30, func(_ *client, other *session) error {
			first, second := concurrency.NewMutex(one, "try"), concurrency.NewMutex(other, "try")
			if err := first.TryLock(ctx); err != nil {
				return err
			}
			if err := second.TryLock(ctx); err != concurrency.ErrLocked {
				return fmt.Errorf("a lock that is held: %v", err)
			}
			if err := first.Unlock(ctx); err != nil {
				return err
			}
			return second.TryLock(ctx)
		})
	})
}

// hold takes a lock in this process, says so, and waits for its end.
func hold(endpoints []string, name string) error {
	ctx := context.Background()
	return withSession(ctx, endpoints, childTTL, func(_ *client, session *session) error {
		if err := concurrency.NewMutex(session, name).Lock(ctx); err != nil {
			return err
		}
		fmt.Println("held")
		<-session.Done()
		return errors.New("the session has ended")
	})
}

func nextAfterKill(ctx context.Context, cluster *cluster) error {
	holder, err := startChild("hold", cluster.endpoints, "after-kill")
	if err != nil {
		return err
	}
	defer holder.kill()
	return withSession(ctx, cluster.endpoints, 30, func(_ *client, session *session) error {
		mutex := concurrency.NewMutex(session, "after-kill")
		got := make(chan error, 1)
		go func() { got <- mutex.Lock(ctx) }()
		// The session of the holder is kept alive beyond its time to live.
		select {
		case err := <-got:
			return fmt.Errorf("two hold the lock, or none: %v", err)
		case <-time.After((childTTL + 1) * time.Second):
		}
		holder.kill()
		return <-got
	})
}

// observed passes on the values of the leaders that an observer sees, each once.
func observed(ctx context.Context, election *concurrency.Election) <-chan string {
	values := make(chan string, 16)
	go func() {
		last := ""
		for response := range election.Observe(ctx) {
			if value := string(response.Kvs[0].Value); value != last {
				last = value
				values <- value
			}
		}
	}()
	return values
}

func expectValue(ctx context.Context, values <-chan string, expected string) error {
	select {
	case value := <-values:
		if value != expected {
			return fmt.Errorf("the observer sees %q, not %q", value, expected)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("the observer never sees %q", expected)
	}
}

func electionAndObserver(ctx context.Context, cluster *cluster) error {
	return withSession(ctx, cluster.endpoints, 30, func(_ *client, one *session) error {
		return withSession(ctx, cluster.endpoints, 30, func(_ *client, other *session) error {
			first, second := concurrency.NewElection(one, "e"), concurrency.NewElection(other, "e")
			if err := first.Campaign(ctx, "one"); err != nil {
				return err
			}
			values := observed(ctx, second)
			if err := expectValue(ctx, values, "one"); err != nil {
				return err
			}
			elected := make(chan error, 1)
			go func() { elected <- second.Campaign(ctx, "two") }()
			if err := first.Proclaim(ctx, "still one"); err != nil {
				return err
			}
			if err := expectValue(ctx, values, "still one"); err != nil {
				return err
			}
			if err := first.Resign(ctx); err != nil {
				return err
			}
			if err := <-elected; err != nil {
				return err
			}
			return expectValue(ctx, values, "two")
		})
	})
}

// lead campaigns in this process, says that it leads, and waits for its end.
func lead(endpoints []string, name string) error {
	ctx := context.Background()
	return withSession(ctx, endpoints, childTTL, func(_ *client, session *session) error {
		if err := concurrency.NewElection(session, name).Campaign(ctx, "child"); err != nil {
			return err
		}
		fmt.Println("held")
		<-session.Done()
		return errors.New("the session has ended")
	})
}

func leaderAfterKill(ctx context.Context, cluster *cluster) error {
	leader, err := startChild("lead", cluster.endpoints, "killed")
	if err != nil {
		return err
	}
	defer leader.kill()
	return withSession(ctx, cluster.endpoints, 30, func(_ *client, session *session) error {
		election := concurrency.NewElection(session, "killed")
		values := observed(ctx, election)
		if err := expectValue(ctx, values, "child"); err != nil {
			return err
		}
		elected := make(chan error, 1)
		go func() { elected <- election.Campaign(ctx, "next") }()
		leader.kill()
		if err := <-elected; err != nil {
			return err
		}
		return expectValue(ctx, values, "next")
	})
}

// conserved moves money between accounts by several clients at once, at each level of isolation
// that forbids lost updates. Each client stays at one member: a transaction reads at the revision of
// its first read, which another member, also of the real etcd, may not have yet.
func conserved(ctx context.Context, cluster *cluster) error {
	const accounts, workers, rounds, start = 4, 4, 10, 100
	levels := []concurrency.Isolation{
		concurrency.SerializableSnapshot, concurrency.Serializable, concurrency.RepeatableReads,
	}
	client, err := connect(cluster.endpoints)
	if err != nil {
		return err
	}
	defer client.Close()
	account := func(number int) string { return fmt.Sprintf("account/%d", number%accounts) }
	for number := range accounts {
		if _, err := client.Put(ctx, account(number), strconv.Itoa(start)); err != nil {
			return err
		}
	}
	err = inParallel(workers, func(worker int) error {
		member := worker % len(cluster.endpoints)
		client, err := connect(cluster.endpoints[member : member+1])
		if err != nil {
			return err
		}
		defer client.Close()
		for round := range rounds {
			from, to := account(worker+round), account(worker+round*2+1)
			move := func(stm concurrency.STM) error {
				if from == to {
					return nil
				}
				has, _ := strconv.Atoi(stm.Get(from))
				gets, _ := strconv.Atoi(stm.Get(to))
				stm.Put(from, strconv.Itoa(has-1-round))
				stm.Put(to, strconv.Itoa(gets+1+round))
				return nil
			}
			level := concurrency.WithIsolation(levels[round%len(levels)])
			abort := concurrency.WithAbortContext(ctx)
			if _, err := concurrency.NewSTM(client, move, abort, level); err != nil {
				return err
			}
		}
		return nil
	})
	sum := 0
	for number := range accounts {
		has, failed := readNumber(ctx, client, account(number))
		sum, err = sum+has, errors.Join(err, failed)
	}
	if sum != accounts*start {
		err = errors.Join(err, fmt.Errorf("the sum is %d, not %d", sum, accounts*start))
	}
	return err
}

// lockUnderKills counts under a lock while each member is killed and started again. A write that is
// not answered is tried again if it has not happened; the key of the lock guards it, so that it
// cannot happen once another client holds the lock.
func lockUnderKills(ctx context.Context, cluster *cluster) error {
	const workers = 4
	isOver := make(chan struct{})
	counts := make([]int, workers)
	var killed error
	go func() {
		defer close(isOver)
		killed = cluster.killEach(ctx)
	}()
	err := inParallel(workers, func(worker int) error {
		return withSession(ctx, cluster.endpoints, 30, func(client *client, session *session) error {
			mutex := concurrency.NewMutex(session, "under-kills")
			for {
				select {
				case <-isOver:
					return nil
				default:
				}
				if err := until(ctx, mutex.Lock); err != nil {
					return err
				}
				if err := countOne(ctx, client, mutex); err != nil {
					return err
				}
				counts[worker]++
				if err := until(ctx, func(ctx context.Context) error { return mutex.Unlock(ctx) }); err != nil {
					return err
				}
			}
		})
	})
	sum := 0
	for _, count := range counts {
		sum += count
	}
	if sum == 0 {
		err = errors.Join(err, errors.New("nobody counted"))
	}
	return errors.Join(err, killed, expectNumber(ctx, cluster, "under-kills-count", sum))
}

// countOne adds 1 to the counter, as the holder of the lock.
func countOne(ctx context.Context, client *client, mutex *concurrency.Mutex) error {
	const key = "under-kills-count"
	before := -1
	return until(ctx, func(ctx context.Context) error {
		number, err := readNumber(ctx, client, key)
		if err != nil {
			return err
		}
		if before < 0 {
			before = number
		}
		if number == before+1 {
			return nil
		}
		if number != before {
			return permanent{fmt.Errorf("%d became %d under the lock", before, number)}
		}
		time.Sleep(2 * time.Millisecond)
		put := clientv3.OpPut(key, strconv.Itoa(number+1))
		done, err := client.Txn(ctx).If(mutex.IsOwner()).Then(put).Commit()
		if err == nil && !done.Succeeded {
			err = permanent{errors.New("the lock was lost")}
		}
		return err
	})
}

// permanent is an error that another attempt cannot mend.
type permanent struct{ error }

// until tries again until there is no error.
func until(ctx context.Context, try func(context.Context) error) error {
	for {
		once, cancel := context.WithTimeout(ctx, 10*time.Second)
		err := try(once)
		cancel()
		var lasting permanent
		if err == nil || errors.As(err, &lasting) || ctx.Err() != nil {
			return err
		}
		time.Sleep(50 * time.Millisecond)
	}
}
