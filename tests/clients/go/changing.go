package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// callPatience is how long one call may take. Members answer theirs within 7 s.
const callPatience = 15 * time.Second

// changing is a cluster whose members come and go. A member's number is its place in these lists;
// it keeps its number, name, URLs and folder when it has been removed and comes again.
type changing struct {
	*cluster
	program, folder string
	// flags are given to every member that is started from now on.
	flags []string
	peers []string
	// clients has a client for each member that is connected to nobody else, nil until it is used.
	clients []*client
}

// begin starts so many members as a new cluster, and waits until each serves.
func begin(ctx context.Context, scene scene, count int, flags ...string) (*changing, error) {
	changing := &changing{
		cluster: &cluster{}, program: scene.program, folder: scene.folder, flags: flags,
	}
	scene.onEnd(changing.end)
	if err := os.MkdirAll(scene.folder, 0o755); err != nil {
		return nil, err
	}
	var all []string
	for range count {
		changing.plan()
	}
	for number := range count {
		all = append(all, changing.listed(number))
	}
	for number := range count {
		if err := changing.launch(number, "new", all); err != nil {
			return nil, err
		}
	}
	for number := range count {
		if err := changing.awaitMember(ctx, number); err != nil {
			return nil, fmt.Errorf("m%d does not serve: %w", number, err)
		}
	}
	// This changes nothing. Quorate raises its level by it, for which no member may be missing.
	own := changing.peers[0]
	return changing, until(ctx, func(ctx context.Context) error {
		id, err := changing.id(ctx, 0, 0)
		if err != nil {
			return err
		}
		_, err = changing.update(ctx, 0, id, own)
		return err
	})
}

// plan reserves the addresses of one more member, and returns its number.
func (changing *changing) plan() int {
	number := len(changing.peers)
	changing.peers = append(changing.peers, "http://"+freeAddress())
	changing.endpoints = append(changing.endpoints, freeAddress())
	changing.commands = append(changing.commands, nil)
	changing.logs = append(changing.logs, changing.data(number)+".log")
	changing.running = append(changing.running, nil)
	changing.clients = append(changing.clients, nil)
	return number
}

func (changing *changing) name(number int) string { return fmt.Sprintf("m%d", number) }

func (changing *changing) data(number int) string {
	return filepath.Join(changing.folder, changing.name(number))
}

// listed is what --initial-cluster has for a member.
func (changing *changing) listed(number int) string {
	return changing.name(number) + "=" + changing.peers[number]
}

// launch starts a member with this --initial-cluster, and waits for nothing.
func (changing *changing) launch(number int, state string, list []string, flags ...string) error {
	client, peer := "http://"+changing.endpoints[number], changing.peers[number]
	command := []string{
		changing.program, "--name", changing.name(number), "--data-dir", changing.data(number),
		"--listen-client-urls", client, "--advertise-client-urls", client,
		"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
		"--initial-cluster", strings.Join(list, ","), "--initial-cluster-state", state,
	}
	changing.commands[number] = slices.Concat(command, changing.flags, flags)
	return changing.start(number)
}

// restart starts a member as it was started before, and waits until it serves.
func (changing *changing) restart(ctx context.Context, number int) error {
	if err := changing.start(number); err != nil {
		return err
	}
	return changing.awaitMember(ctx, number)
}

// cut ends members by SIGKILL.
func (changing *changing) cut(numbers ...int) {
	for _, number := range numbers {
		if changing.running[number] != nil {
			changing.kill(number)
			changing.running[number] = nil
		}
		if changing.clients[number] != nil {
			changing.clients[number].Close()
			changing.clients[number] = nil
		}
	}
}

func (changing *changing) end() {
	for number := range changing.running {
		changing.cut(number)
	}
}

// awaitEnd waits until a member has ended by itself, and returns its exit status.
func (changing *changing) awaitEnd(ctx context.Context, number int) (int, error) {
	command := changing.running[number]
	ended := make(chan struct{})
	go func() {
		_ = command.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		changing.running[number] = nil
		changing.cut(number)
		return command.ProcessState.ExitCode(), nil
	case <-ctx.Done():
	case <-time.After(patience / 2):
	}
	_ = command.Process.Kill()
	<-ended
	changing.running[number] = nil
	return 0, fmt.Errorf("m%d does not end", number)
}

// eitherStatus is that of a removed member that is started: etcd ends with 0 if it began to serve.
const eitherStatus = -1

// expectEnd waits until a member has ended by itself with this exit status and text in its log.
func (changing *changing) expectEnd(
	ctx context.Context, number, expected int, text string,
) error {
	found, err := changing.awaitEnd(ctx, number)
	if err != nil {
		return err
	}
	log, err := os.ReadFile(changing.logs[number])
	if err != nil {
		return err
	}
	if found != expected && (expected != eitherStatus || found < 0 || found > 1) {
		return fmt.Errorf("m%d ends with status %d, not %d", number, found, expected)
	}
	if !strings.Contains(string(log), text) {
		return fmt.Errorf("m%d ends without saying %q", number, text)
	}
	return nil
}

// client returns a client that knows this member only.
func (changing *changing) client(number int) (*client, error) {
	var err error
	if changing.clients[number] == nil {
		changing.clients[number], err = connect(changing.endpoints[number : number+1])
	}
	return changing.clients[number], err
}

// called calls the members' service of one member. The errors are those of the wire: clientv3 takes
// the code of an error that it knows from its own list.
func called[T any](
	ctx context.Context, changing *changing, at int,
	call func(context.Context, pb.ClusterClient) (T, error),
) (T, error) {
	client, err := changing.client(at)
	if err != nil {
		var nothing T
		return nothing, err
	}
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	return call(ctx, pb.NewClusterClient(client.ActiveConnection()))
}

func (changing *changing) list(
	ctx context.Context, at int, isLinearizable bool,
) (*pb.MemberListResponse, error) {
	call := func(ctx context.Context, service pb.ClusterClient) (*pb.MemberListResponse, error) {
		return service.MemberList(ctx, &pb.MemberListRequest{Linearizable: isLinearizable})
	}
	return called(ctx, changing, at, call)
}

func (changing *changing) add(
	ctx context.Context, at int, isLearner bool, urls ...string,
) (*pb.MemberAddResponse, error) {
	call := func(ctx context.Context, service pb.ClusterClient) (*pb.MemberAddResponse, error) {
		return service.MemberAdd(ctx, &pb.MemberAddRequest{PeerURLs: urls, IsLearner: isLearner})
	}
	return called(ctx, changing, at, call)
}

func (changing *changing) remove(
	ctx context.Context, at int, id uint64,
) (*pb.MemberRemoveResponse, error) {
	call := func(ctx context.Context, service pb.ClusterClient) (*pb.MemberRemoveResponse, error) {
		return service.MemberRemove(ctx, &pb.MemberRemoveRequest{ID: id})
	}
	return called(ctx, changing, at, call)
}

func (changing *changing) update(
	ctx context.Context, at int, id uint64, urls ...string,
) (*pb.MemberUpdateResponse, error) {
	call := func(ctx context.Context, service pb.ClusterClient) (*pb.MemberUpdateResponse, error) {
		return service.MemberUpdate(ctx, &pb.MemberUpdateRequest{ID: id, PeerURLs: urls})
	}
	return called(ctx, changing, at, call)
}

func (changing *changing) promote(
	ctx context.Context, at int, id uint64,
) (*pb.MemberPromoteResponse, error) {
	call := func(ctx context.Context, service pb.ClusterClient) (*pb.MemberPromoteResponse, error) {
		return service.MemberPromote(ctx, &pb.MemberPromoteRequest{ID: id})
	}
	return called(ctx, changing, at, call)
}

func (changing *changing) status(
	ctx context.Context, at int,
) (*clientv3.StatusResponse, error) {
	client, err := changing.client(at)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callPatience)
	defer cancel()
	return client.Status(ctx, changing.endpoints[at])
}

// members returns the list. It asks again while there is no leader.
func (changing *changing) members(ctx context.Context, at int) ([]*pb.Member, error) {
	late := time.Now().Add(callPatience)
	for {
		list, err := changing.list(ctx, at, true)
		if err == nil {
			return list.Members, nil
		}
		if status.Code(err) != codes.Unavailable || ctx.Err() != nil || time.Now().After(late) {
			return nil, err
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// member returns what the list says about a member, which is found by its peer URL.
func (changing *changing) member(ctx context.Context, at, number int) (*pb.Member, error) {
	members, err := changing.members(ctx, at)
	if err != nil {
		return nil, err
	}
	if place := changing.place(number, members); place >= 0 {
		return members[place], nil
	}
	return nil, fmt.Errorf("m%d is not in the list %v", number, members)
}

// place returns where a member is in a list, -1 if it is not there.
func (changing *changing) place(number int, members []*pb.Member) int {
	return slices.IndexFunc(members, func(member *pb.Member) bool {
		return slices.Contains(member.PeerURLs, changing.peers[number])
	})
}

func (changing *changing) id(ctx context.Context, at, number int) (uint64, error) {
	member, err := changing.member(ctx, at, number)
	if err != nil {
		return 0, err
	}
	return member.ID, nil
}

// removeNumber removes a member, when the cluster is healthy enough for it.
func (changing *changing) removeNumber(ctx context.Context, at, number int) error {
	id, err := changing.id(ctx, at, number)
	if err != nil {
		return err
	}
	err = changing.atLast(ctx, at, func(ctx context.Context) error {
		response, err := changing.remove(ctx, at, id)
		if err == nil && changing.place(number, response.Members) >= 0 {
			err = permanent{fmt.Errorf("it is still in the list %v", response.Members)}
		}
		return err
	}, func(members []*pb.Member) bool { return changing.place(number, members) < 0 })
	if err != nil {
		return fmt.Errorf("m%d is not removed: %w", number, err)
	}
	return nil
}

// atLast tries a change until it is made. It tries again while the cluster is not healthy, and where
// the answer leaves open whether the change was made: a change of the leader, or a time-out, unless
// the list shows it.
func (changing *changing) atLast(
	ctx context.Context, at int, try func(context.Context) error, isMade func([]*pb.Member) bool,
) error {
	for {
		err := onceHealthy(ctx, try)
		code := status.Code(err)
		if err == nil || code != codes.Unavailable && code != codes.DeadlineExceeded ||
			expectRefused(err, rpctypes.ErrGRPCUnhealthy) == nil || ctx.Err() != nil {
			return err
		}
		members, failed := changing.members(ctx, at)
		if failed == nil && isMade(members) {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// leader returns the number of the leader.
func (changing *changing) leader(ctx context.Context, at int) (int, error) {
	leader := -1
	return leader, until(ctx, func(ctx context.Context) error {
		status, err := changing.status(ctx, at)
		if err != nil {
			return err
		}
		members, err := changing.members(ctx, at)
		if err != nil {
			return err
		}
		for _, member := range members {
			if member.ID == status.Leader {
				leader = slices.Index(changing.peers, member.PeerURLs[0])
			}
		}
		if leader < 0 {
			return errors.New("there is no leader")
		}
		return nil
	})
}

// listOfJoiner is the --initial-cluster that etcdctl prints for a member that was added.
func (changing *changing) listOfJoiner(number int, members []*pb.Member) []string {
	var list []string
	for _, member := range members {
		name := member.Name
		if slices.Contains(member.PeerURLs, changing.peers[number]) {
			name = changing.name(number)
		}
		for _, url := range member.PeerURLs {
			list = append(list, name+"="+url)
		}
	}
	return list
}

// join adds a member, starts it and waits until it serves. A learner is not waited for. A cluster
// that is not healthy yet may become so.
func (changing *changing) join(ctx context.Context, at, number int, isLearner bool) error {
	err := changing.atLast(ctx, at, func(ctx context.Context) error {
		_, err := changing.add(ctx, at, isLearner, changing.peers[number])
		return err
	}, func(members []*pb.Member) bool { return changing.place(number, members) >= 0 })
	if err != nil {
		return fmt.Errorf("m%d is not added: %w", number, err)
	}
	list, err := changing.list(ctx, at, false)
	if err != nil {
		return err
	}
	names := changing.listOfJoiner(number, list.Members)
	if err := changing.launch(number, "existing", names); err != nil {
		return err
	}
	if isLearner {
		return nil
	}
	if err := changing.awaitMember(ctx, number); err != nil {
		return fmt.Errorf("m%d does not serve: %w", number, err)
	}
	return changing.awaitStarted(ctx, at, number)
}

// awaitStarted waits until a member has its name and its clients' URL in the list.
func (changing *changing) awaitStarted(ctx context.Context, at, number int) error {
	ctx, cancel := context.WithTimeout(ctx, patience/2)
	defer cancel()
	last := errors.New("nothing is known")
	err := until(ctx, func(ctx context.Context) (err error) {
		defer func() {
			if err != nil && status.Code(err) != codes.DeadlineExceeded {
				last = err
			}
		}()
		member, err := changing.member(ctx, at, number)
		if err != nil {
			return err
		}
		urls := []string{"http://" + changing.endpoints[number]}
		if member.Name != changing.name(number) || !slices.Equal(member.ClientURLs, urls) {
			return fmt.Errorf("m%d has not started: %v", number, member)
		}
		return nil
	})
	if err != nil {
		return last
	}
	return nil
}

// promoteNumber promotes a learner as soon as it is in sync.
func (changing *changing) promoteNumber(ctx context.Context, at, number int) error {
	id, err := changing.id(ctx, at, number)
	if err != nil {
		return err
	}
	err = unlessIs(ctx, rpctypes.ErrGRPCLearnerNotReady, func(ctx context.Context) error {
		_, err := changing.promote(ctx, at, id)
		return err
	})
	if err != nil {
		return fmt.Errorf("m%d is not promoted: %w", number, err)
	}
	return changing.awaitMember(ctx, number)
}

// expectProgress puts a key at the first of these members, and reads it at each.
func (changing *changing) expectProgress(ctx context.Context, numbers ...int) error {
	value := fmt.Sprint(time.Now().UnixNano())
	try := func(number int, work func(context.Context, *client) error) error {
		err := until(ctx, func(ctx context.Context) error {
			client, err := changing.client(number)
			if err != nil {
				return err
			}
			return work(ctx, client)
		})
		if err != nil {
			err = fmt.Errorf("m%d makes no progress: %w", number, err)
		}
		return err
	}
	err := try(numbers[0], func(ctx context.Context, client *client) error {
		_, err := client.Put(ctx, "progress", value)
		return err
	})
	for _, number := range numbers {
		err = errors.Join(err, try(number, func(ctx context.Context, client *client) error {
			found, err := client.Get(ctx, "progress")
			if err == nil && (len(found.Kvs) != 1 || string(found.Kvs[0].Value) != value) {
				err = permanent{errors.New("the key is not there")}
			}
			return err
		}))
	}
	return err
}

// expectNumbers fails unless the list has these members, and each has started.
func (changing *changing) expectNumbers(ctx context.Context, at int, numbers ...int) error {
	for _, number := range numbers {
		if err := changing.awaitStarted(ctx, at, number); err != nil {
			return err
		}
	}
	members, err := changing.members(ctx, at)
	if err == nil && len(members) != len(numbers) {
		err = fmt.Errorf("there are %d members, not %d", len(members), len(numbers))
	}
	return err
}

// onceHealthy tries again while the cluster is refused as not healthy. Members count only when they
// have been connected for 5 s.
func onceHealthy(ctx context.Context, try func(context.Context) error) error {
	return unlessIs(ctx, rpctypes.ErrGRPCUnhealthy, try)
}

// unlessIs tries again while this error comes, and for 25 s at most.
func unlessIs(ctx context.Context, awaited error, try func(context.Context) error) error {
	late := time.Now().Add(25 * time.Second)
	for {
		err := try(ctx)
		if expectRefused(err, awaited) != nil || ctx.Err() != nil || time.Now().After(late) {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// expectRefused fails unless a call ended with this error of etcd: its code, and its text.
func expectRefused(err, expected error) error {
	right := shown(expected)
	if err == nil {
		return fmt.Errorf("taken, not refused with %q", right.Message())
	}
	found := shown(err)
	if found.Code() != right.Code() || found.Message() != right.Message() {
		return fmt.Errorf("refused with %v %q, not with %v %q",
			found.Code(), found.Message(), right.Code(), right.Message())
	}
	return nil
}

// shown returns the code and the text of an error of the wire, or of one of clientv3.
func shown(err error) *status.Status {
	var known rpctypes.EtcdError
	if errors.As(err, &known) {
		return status.New(known.Code(), known.Error())
	}
	return status.Convert(err)
}
