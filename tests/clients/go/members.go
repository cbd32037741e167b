package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// expectTooFewStarted fails unless a change was refused because too few members have started. The
// code on the wire has a scenario of its own.
func expectTooFewStarted(err error) error {
	return expectRefused(rpctypes.Error(err), rpctypes.ErrMemberNotEnoughStarted)
}

// lax switches off the checks for a change while members are missing or have just come.
const lax = "--strict-reconfig-check=false"

// scene is where a scenario of members runs.
type scene struct {
	program, folder, etcdctl string
	// isQuorate is set where the server is Quorate, for what it does in another way on purpose.
	isQuorate bool
	onEnd     func(func())
}

// change is a scenario in which the members of a cluster change. Most of them check what tests of
// etcd check: tests/integration/cluster_test.go, tests/integration/clientv3/cluster_test.go,
// tests/common/member_test.go and tests/e2e. Long ones are first.
type change struct {
	name string
	run  func(ctx context.Context, scene scene) error
}

var changes = []change{
	{"a member that reaches nobody of its list ends", reachesNobody},
	{"a new member whose URL is not that of its list ends", notWhereItSays},
	{"a new learner joins at its first try", joinsAtOnce},
	{"three members become six, one by one", threeToSix},
	{"five members become one, one by one", fiveToOne},
	{"one member becomes three and one again, with strict checks", oneToThreeToOne},
	{"three members are all replaced, and a fourth is added", fullRotation},
	{"with two of five down only members that are down can be removed", removeWhileDown},
	{"with one of three down no member can be added", addWhileDown},
	{"one of four may be down when a learner is added", addWhileOneOfFourDown},
	{"members can be changed once they are healthy", changeAtOnce},
	{"a member with an empty folder comes back by remove and add", replaced},
	{"a member with an empty folder comes back as a learner", replacedAsLearner},
	{"one of five is removed after many writes, and another added at once", removedAndAdded},
	{"a member that has just been added is removed", justAdded},
	{"a member that was down while another was added follows it as leader", followsNewcomer},
	{"a removed member ends, and ends again", removedEnds},
	{"a member that is removed while it is down ends when it comes", removedWhileDown},
	{"a leader removes itself", leaderRemovesItself},
	{"a follower removes itself", followerRemovesItself},
	{"a learner in sync is promoted and votes", promoted},
	{"a learner that is not in sync is not promoted", notInSync},
	{"a learner serves only its status and serializable reads", learnerServes},
	{"clients pass over a learner", passedOver},
	{"a learner does not become leader", learnerNeverLeads},
	{"a leader beside a learner ends without delay", endsBesideLearner},
	{"members move to other peer URLs", moved},
	{"a serializable list needs no quorum", listWithoutQuorum},
	{"a linearizable list waits for a second member", listWhileSecondAbsent},
	{"only root may change members", onlyRoot},
	{"a member joins while users have passwords", joinsWithUsers},
	{"there are no more learners than --max-learners", learnersLimited},
	{"wrong peer URLs are refused", wrongURLs},
	{"peer URLs of others are refused", takenURLs},
	{"unknown members are refused", unknownMembers},
	{"a voter cannot be promoted, and the last one not removed", voters},
	{"a new member is in the list without a name", unstarted},
	{"two removals of one member remove it once", removedTwice},
	{"a learner can go while leadership is offered to it", removedWhileOffered},
	{"too few started members are refused with etcd's code", tooFewStarted},
	{"the gateway for JSON changes members", gateway},
	{"a member ends when its list does not fit", listDoesNotFit},
	{"a member joins whatever the names in its list are", otherNames},
	{"a list with one member too many is said to be unequal", oneTooMany},
	{"a list with one URL twice is said to have it twice", twiceTheSame},
	{"a member ends when its state is neither new nor existing", unknownState},
	{"a member with an empty folder does not begin a cluster anew", doesNotBeginAnew},
	{"etcdctl prints the members", ctlPrints},
}

// runChanges runs the scenarios whose names contain one of these parts, several at once: they
// mostly wait. It returns the exit status.
func runChanges(program, folder string, parts []string) int {
	const jobs = 6
	version, err := exec.Command(program, "--version").CombinedOutput()
	check(err)
	isQuorate := strings.Contains(strings.ToLower(string(version)), "quorate")
	var chosen []change
	for _, change := range changes {
		isPart := func(part string) bool { return strings.Contains(change.name, part) }
		if len(parts) == 0 || slices.ContainsFunc(parts, isPart) {
			chosen = append(chosen, change)
		}
	}
	passed, failed := 0, 0
	var printing sync.Mutex
	var running sync.WaitGroup
	slots := make(chan struct{}, jobs)
	for number, change := range chosen {
		slots <- struct{}{}
		running.Go(func() {
			defer func() { <-slots }()
			began := time.Now()
			err := runChange(change, scene{
				program: program, folder: filepath.Join(folder, fmt.Sprint(number)),
				etcdctl: os.Getenv("ETCDCTL"), isQuorate: isQuorate,
			})
			took := time.Since(began).Round(time.Millisecond)
			printing.Lock()
			defer printing.Unlock()
			if err != nil {
				failed++
				text := strings.ReplaceAll(err.Error(), "\n", "; ")
				fmt.Printf("%s, %v, in %d: FAILED: %s\n", change.name, took, number, text)
				return
			}
			passed++
			fmt.Printf("%s, %v: ok\n", change.name, took)
		})
	}
	running.Wait()
	fmt.Printf("%d passed, %d failed\n", passed, failed)
	return min(failed, 1)
}

func runChange(change change, scene scene) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	var ends []func()
	scene.onEnd = func(end func()) { ends = append(ends, end) }
	defer func() {
		for _, end := range ends {
			end()
		}
	}()
	err := change.run(ctx, scene)
	if err == nil {
		// An etcd reserves 128 MB for the log of each member.
		for _, end := range ends {
			end()
		}
		_ = os.RemoveAll(scene.folder)
	}
	return err
}

// wrongURLs sends URLs that the Go client itself refuses.
func wrongURLs(ctx context.Context, scene scene) error {
	changing, err := begin(ctx, scene, 1)
	if err != nil {
		return err
	}
	client, err := changing.client(0)
	if err != nil {
		return err
	}
	var all error
	for _, url := range []string{
		"://127.0.0.1:2379", "mailto://127.0.0.1:2379", "http://127.0.0.1",
		"http://127.0.0.1:2379/path", "127.0.0.1:1234", "localhost:1234",
	} {
		_, err := changing.add(ctx, 0, false, url)
		if err := expectRefused(err, rpctypes.ErrGRPCMemberBadURLs); err != nil {
			all = errors.Join(all, fmt.Errorf("add %s: %w", url, err))
		}
		if _, err := changing.update(ctx, 0, 0, url); err == nil {
			all = errors.Join(all, fmt.Errorf("update %s is taken", url))
		}
		if _, err := client.MemberUpdate(ctx, 0, []string{url}); err == nil {
			all = errors.Join(all, fmt.Errorf("update %s is taken by the client", url))
		}
	}
	_, err = changing.add(ctx, 0, false)
	if err := expectRefused(err, rpctypes.ErrGRPCMemberBadURLs); err != nil {
		all = errors.Join(all, fmt.Errorf("add without a URL: %w", err))
	}
	return all
}

func takenURLs(ctx context.Context, scene scene) error {
	changing, err := begin(ctx, scene, 2, lax)
	if err != nil {
		return err
	}
	id, err := changing.id(ctx, 0, 1)
	if err != nil {
		return err
	}
	taken, free := changing.peers[0], "http://127.0.0.1:1234"
	var all error
	for _, urls := range [][]string{{taken}, {free, taken}} {
		for _, isLearner := range []bool{false, true} {
			_, err := changing.add(ctx, 0, isLearner, urls...)
			all = errors.Join(all, expectRefused(err, rpctypes.ErrGRPCPeerURLExist))
		}
		_, err := changing.update(ctx, 0, id, urls...)
		all = errors.Join(all, expectRefused(err, rpctypes.ErrGRPCPeerURLExist))
	}
	return errors.Join(all, changing.expectNumbers(ctx, 0, 0, 1), changing.expectProgress(ctx, 0, 1))
}

func unknownMembers(ctx context.Context, scene scene) error {
	changing, err := begin(ctx, scene, 1)
	if err != nil {
		return err
	}
	refuse := func() error {
		_, ofRemove := changing.remove(ctx, 0, 1)
		_, ofUpdate := changing.update(ctx, 0, 1, "http://127.0.0.1:1234")
		_, ofPromote := changing.promote(ctx, 0, 1)
		var all error
		for _, err := range []error{ofRemove, ofUpdate, ofPromote} {
			all = errors.Join(all, expectRefused(err, rpctypes.ErrGRPCMemberNotFound))
		}
		return all
	}
	all := refuse()
	changing.cut(0)
	return errors.Join(all, changing.restart(ctx, 0), refuse(), changing.expectProgress(ctx, 0))
}

func voters(ctx context.Context, scene scene) error {
	changing, err := begin(ctx, scene, 3)
	if err != nil {
		return err
	}
	leader, err := changing.leader(ctx, 0)
	if err != nil {
		return err
	}
	list, err := changing.list(ctx, 0, true)
	if err != nil {
		return err
	}
	var all error
	for at := range 3 {
		for _, member := range list.Members {
			_, err := changing.promote(ctx, at, member.ID)
			if err := expectRefused(err, rpctypes.ErrGRPCMemberNotLearner); err != nil {
				all = errors.Join(all, fmt.Errorf("at m%d of m%d's: %w", at, leader, err))
			}
		}
	}
	scene.folder = filepath.Join(scene.folder, "alone")
	alone, err := begin(ctx, scene, 1)
	if err != nil {
		return err
	}
	id, err := alone.id(ctx, 0, 0)
	if err != nil {
		return err
	}
	_, err = alone.remove(ctx, 0, id)
	return errors.Join(all, expectTooFewStarted(err),
		alone.expectProgress(ctx, 0))
}

// unstarted looks at each answer about a learner that never starts: it is in the list with its URLs,
// and has no name. A member that is added again has another id.
func unstarted(ctx context.Context, scene scene) error {
	changing, err := begin(ctx, scene, 1)
	if err != nil {
		return err
	}
	first, second := "http://127.0.0.1:1234", "http://127.0.0.1:5678"
	before, err := changing.list(ctx, 0, true)
	if err != nil {
		return err
	}
	added, err := changing.add(ctx, 0, true, first)
	if err != nil {
		return err
	}
	expect := func(what string, member *pb.Member, header *pb.ResponseHeader, url string) error {
		if member == nil || member.ID == 0 || member.ID != added.Member.ID || member.Name != "" ||
			!slices.Equal(member.PeerURLs, []string{url}) || len(member.ClientURLs) != 0 ||
			!member.IsLearner {
			return fmt.Errorf("%s: %v", what, member)
		}
		if header.ClusterId != before.Header.ClusterId || header.Revision != 0 ||
			header.MemberId != before.Header.MemberId || header.RaftTerm == 0 {
			return fmt.Errorf("%s: %v", what, header)
		}
		return nil
	}
	of := func(members []*pb.Member) *pb.Member {
		for _, member := range members {
			if member.ID == added.Member.ID && len(members) == 2 {
				return member
			}
		}
		return nil
	}
	all := errors.Join(expect("add", added.Member, added.Header, first),
		expect("add's list", of(added.Members), added.Header, first))
	for _, isLinearizable := range []bool{false, true} {
		list, err := changing.list(ctx, 0, isLinearizable)
		if err != nil {
			return err
		}
		all = errors.Join(all, expect("list", of(list.Members), list.Header, first))
	}
	updated, err := changing.update(ctx, 0, added.Member.ID, second)
	if err != nil {
		return err
	}
	all = errors.Join(all, expect("update", of(updated.Members), updated.Header, second))
	_, err = changing.promote(ctx, 0, added.Member.ID)
	all = errors.Join(all, expectRefused(err, rpctypes.ErrGRPCLearnerNotReady))
	removed, err := changing.remove(ctx, 0, added.Member.ID)
	if err != nil {
		return err
	}
	if len(removed.Members) != 1 || removed.Members[0].ID != before.Header.MemberId {
		all = errors.Join(all, fmt.Errorf("remove: %v", removed.Members))
	}
	again, err := changing.add(ctx, 0, true, second)
	if err != nil {
		return err
	}
	if again.Member.ID == added.Member.ID {
		all = errors.Join(all, fmt.Errorf("the id %x is used again", again.Member.ID))
	}
	if _, err := changing.remove(ctx, 0, again.Member.ID); err != nil {
		return err
	}
	// The list outlives the end of the member.
	for range 2 {
		changing.cut(0)
		all = errors.Join(all, changing.restart(ctx, 0), changing.expectNumbers(ctx, 0, 0))
	}
	return all
}

func learnersLimited(ctx context.Context, scene scene) error {
	var all error
	for limit := 1; limit <= 2; limit++ {
		flags := []string{lax}
		if limit > 1 {
			flags = append(flags, fmt.Sprintf("--max-learners=%d", limit))
		}
		at := scene
		at.folder = filepath.Join(scene.folder, fmt.Sprint(limit))
		changing, err := begin(ctx, at, 3, flags...)
		if err != nil {
			return err
		}
		for number := range limit {
			url := fmt.Sprintf("http://127.0.0.1:123%d", number)
			if _, err := changing.add(ctx, number, true, url); err != nil {
				return err
			}
		}
		for number := range 3 {
			_, err := changing.add(ctx, number, true, "http://127.0.0.1:2342")
			all = errors.Join(all, expectRefused(err, rpctypes.ErrGRPCTooManyLearners))
		}
		if _, err := changing.add(ctx, 0, false, "http://127.0.0.1:3453"); err != nil {
			all = errors.Join(all, fmt.Errorf("a voter: %w", err))
		}
		changing.end()
	}
	return all
}

// removedTwice sends the second call while the first one may still run. (etcd can
// lose one of two changes that are proposed at the very same time.)
func removedTwice(ctx context.Context, scene scene) error {
	changing, err := begin(ctx, scene, 1)
	if err != nil {
		return err
	}
	added, err := changing.add(ctx, 0, true, "http://127.0.0.1:123")
	if err != nil {
		return err
	}
	err = inParallel(2, func(number int) error {
		time.Sleep(time.Duration(number) * 200 * time.Millisecond)
		_, err := changing.remove(ctx, 0, added.Member.ID)
		if number == 1 {
			err = expectRefused(err, rpctypes.ErrGRPCMemberNotFound)
		}
		return err
	})
	_, of0 := changing.remove(ctx, 0, 0)
	return errors.Join(err, expectRefused(of0, rpctypes.ErrGRPCMemberNotFound),
		changing.expectNumbers(ctx, 0, 0))
}

func removedWhileOffered(ctx context.Context, scene scene) error {
	changing, err := begin(ctx, scene, 1)
	if err != nil {
		return err
	}
	client, err := changing.client(0)
	if err != nil {
		return err
	}
	added, err := changing.add(ctx, 0, true, "http://127.0.0.1:123")
	if err != nil {
		return err
	}
	err = inParallel(2, func(number int) error {
		if number == 0 {
			_, err := changing.remove(ctx, 0, added.Member.ID)
			return err
		}
		_, err := client.MoveLeader(ctx, added.Member.ID)
		return expectRefused(err, rpctypes.ErrGRPCBadLeaderTransferee)
	})
	return errors.Join(err, changing.expectNumbers(ctx, 0, 0), changing.expectProgress(ctx, 0))
}

// post calls the gateway, and fails unless it answers with this status and a text that has this part.
func (changing *changing) post(path, body string, status int, part string) error {
	url := "http://" + changing.endpoints[0] + "/v3/cluster/member/" + path
	response, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err == nil && (response.StatusCode != status || !strings.Contains(string(text), part)) {
		err = fmt.Errorf("%s %s: %d %s", path, body, response.StatusCode, text)
	}
	return err
}

func gateway(ctx context.Context, scene scene) error {
	changing, err := begin(ctx, scene, 1)
	if err != nil {
		return err
	}
	first, second := "http://127.0.0.1:22380", "http://127.0.0.1:32380"
	all := changing.post("add", fmt.Sprintf(`{"peerURLs":[%q],"isLearner":true}`, first), 200, first)
	changing.plan()
	changing.peers[1] = first
	id, err := changing.id(ctx, 0, 1)
	if err != nil {
		return errors.Join(all, err)
	}
	update := fmt.Sprintf(`{"ID":"%d","peerURLs":[%q]}`, id, second)
	one := fmt.Sprintf(`{"ID":%d}`, id)
	return errors.Join(all,
		changing.post("list", `{}`, 200, fmt.Sprintf(`"ID":"%d"`, id)),
		changing.post("list", `{"linearizable":true}`, 200, `"isLearner":true`),
		changing.post("update", update, 200, second),
		changing.post("promote", one, 400,
			"etcdserver: can only promote a learner member which is in sync with leader"),
		changing.post("remove", one, 200, `"members":[`),
		changing.post("remove", one, 404, "etcdserver: member not found"),
		changing.post("add", `{"peerURLs":["bad"]}`, 400, "given member URLs are invalid"),
		changing.expectNumbers(ctx, 0, 0))
}

// tooFewStarted looks at the code on the wire. etcd means FailedPrecondition, as its clients show it,
// and sends Unknown.
func tooFewStarted(ctx context.Context, scene scene) error {
	changing, err := begin(ctx, scene, 1)
	if err != nil {
		return err
	}
	id, err := changing.id(ctx, 0, 0)
	if err != nil {
		return err
	}
	text := "etcdserver: re-configuration failed due to not enough started members"
	_, err = changing.remove(ctx, 0, id)
	return errors.Join(expectRefused(err, status.Error(codes.Unknown, text)),
		changing.post("remove", fmt.Sprintf(`{"ID":"%d"}`, id), 500, text))
}

// listWithoutQuorum asks the last of three members.
func listWithoutQuorum(ctx context.Context, scene scene) error {
	changing, err := begin(ctx, scene, 3)
	if err != nil {
		return err
	}
	if err := changing.expectNumbers(ctx, 0, 0, 1, 2); err != nil {
		return err
	}
	changing.cut(1, 2)
	list, err := changing.list(ctx, 0, false)
	if err != nil {
		return err
	}
	if len(list.Members) != 3 {
		return fmt.Errorf("%v", list.Members)
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	if _, err := changing.list(ctx, 0, true); err == nil {
		return errors.New("a linearizable list is answered without a quorum")
	}
	return nil
}

// listWhileSecondAbsent adds a second member that never starts. A serializable list has it.
func listWhileSecondAbsent(ctx context.Context, scene scene) error {
	changing, err := begin(ctx, scene, 1)
	if err != nil {
		return err
	}
	added, err := changing.add(ctx, 0, false, "http://localhost:123")
	if err != nil {
		return err
	}
	if len(added.Members) != 2 {
		return fmt.Errorf("%v", added.Members)
	}
	list, err := changing.list(ctx, 0, false)
	if err != nil {
		return err
	}
	if len(list.Members) != 2 {
		return fmt.Errorf("%v", list.Members)
	}
	// After a second change those that have started would be no majority.
	_, again := changing.add(ctx, 0, false, "http://localhost:124")
	_, own := changing.remove(ctx, 0, added.Header.MemberId)
	refused := errors.Join(expectTooFewStarted(again), expectTooFewStarted(own))
	once, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	_, err = changing.list(once, 0, true)
	if scene.isQuorate {
		// A new member has no vote until it has caught up: docs/etcd.md, Changing the members.
		return errors.Join(refused, err, changing.expectProgress(ctx, 0))
	}
	if err == nil {
		return errors.New("a linearizable list is answered without a quorum")
	}
	return refused
}

// moveLeader makes a member the leader.
func (changing *changing) moveLeader(ctx context.Context, at, to int) error {
	id, err := changing.id(ctx, at, to)
	if err != nil {
		return err
	}
	return until(ctx, func(ctx context.Context) error {
		leader, err := changing.leader(ctx, at)
		if err != nil || leader == to {
			return err
		}
		client, err := changing.client(leader)
		if err != nil {
			return err
		}
		_, err = client.MoveLeader(ctx, id)
		return errors.Join(err, errors.New("it does not lead yet"))
	})
}

func learnerNeverLeads(ctx context.Context, scene scene) error {
	changing, err := begin(ctx, scene, 3, lax)
	if err != nil {
		return err
	}
	learner := changing.plan()
	if err := changing.join(ctx, 0, learner, true); err != nil {
		return err
	}
	if err := changing.awaitStarted(ctx, 0, learner); err != nil {
		return err
	}
	id, err := changing.id(ctx, 0, learner)
	if err != nil {
		return err
	}
	leader, err := changing.leader(ctx, 0)
	if err != nil {
		return err
	}
	client, err := changing.client(leader)
	if err != nil {
		return err
	}
	_, err = client.MoveLeader(ctx, id)
	if err := expectRefused(err, rpctypes.ErrGRPCBadLeaderTransferee); err != nil {
		return err
	}
	// The learner has no vote: two of three voters are enough, and one voter with it is not.
	changing.cut((leader + 1) % 3)
	if err := changing.expectProgress(ctx, leader, (leader+2)%3); err != nil {
		return err
	}
	changing.cut((leader + 2) % 3)
	once, cancel := context.WithTimeout(ctx, 4*time.Second)
	defer cancel()
	if _, err := client.Put(once, "learner", "votes"); err == nil {
		return errors.New("a learner votes")
	}
	return nil
}

// endsBesideLearner ends the only voter by SIGTERM: there is nobody to hand leadership over to.
func endsBesideLearner(ctx context.Context, scene scene) error {
	changing, err := begin(ctx, scene, 1)
	if err != nil {
		return err
	}
	learner := changing.plan()
	if err := changing.join(ctx, 0, learner, true); err != nil {
		return err
	}
	if err := changing.awaitStarted(ctx, 0, learner); err != nil {
		return err
	}
	began := time.Now()
	_ = changing.running[0].Process.Signal(os.Interrupt)
	if _, err := changing.awaitEnd(ctx, 0); err != nil {
		return err
	}
	if took := time.Since(began); took > 5*time.Second {
		return fmt.Errorf("it ends after %v", took)
	}
	return nil
}

// learnerServes reads, writes and asks for the status of a learner.
func learnerServes(ctx context.Context, scene scene) error {
	changing, err := begin(ctx, scene, 3, lax)
	if err != nil {
		return err
	}
	learner := changing.plan()
	if err := errors.Join(changing.join(ctx, 0, learner, true),
		changing.awaitStarted(ctx, 0, learner)); err != nil {
		return err
	}
	one, err := connect(changing.endpoints[learner : learner+1])
	if err != nil {
		return err
	}
	defer one.Close()
	patient := 15 * time.Second
	if scene.isQuorate {
		patient = time.Second
	}
	do := func(operation clientv3.Op) error {
		ctx, cancel := context.WithTimeout(ctx, patient)
		defer cancel()
		_, err := one.Do(ctx, operation)
		return err
	}
	compare := []clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision("k"), "=", 0)}
	refused := []clientv3.Op{
		clientv3.OpGet("k"), clientv3.OpPut("k", "v"), clientv3.OpDelete("k"),
		clientv3.OpTxn(compare, nil, nil),
	}
	served := do(clientv3.OpGet("k", clientv3.WithSerializable()))
	if scene.isQuorate {
		// All calls to a learner wait for its promotion: docs/etcd.md, Changing the members.
		if served == nil {
			return errors.New("the learner serves, and docs/etcd.md says that it does not")
		}
		for _, operation := range refused {
			if do(operation) == nil {
				return errors.New("a learner serves")
			}
		}
		return nil
	}
	all := served
	for _, operation := range refused {
		all = errors.Join(all, expectRefused(do(operation), rpctypes.ErrGRPCNotSupportedForLearner))
	}
	shown, err := one.Status(ctx, changing.endpoints[learner])
	if err == nil && !shown.IsLearner {
		err = fmt.Errorf("the status says %v", shown)
	}
	return errors.Join(all, err)
}

// passedOver reads with a client that knows a learner and a voter.
func passedOver(ctx context.Context, scene scene) error {
	changing, err := begin(ctx, scene, 3, lax)
	if err != nil {
		return err
	}
	learner := changing.plan()
	if err := errors.Join(changing.join(ctx, 0, learner, true),
		changing.awaitStarted(ctx, 0, learner)); err != nil {
		return err
	}
	both, err := connect([]string{changing.endpoints[learner], changing.endpoints[0]})
	if err != nil {
		return err
	}
	defer both.Close()
	// A learner refuses, and the client tries the other at its next try.
	for range 6 {
		once, cancel := context.WithTimeout(ctx, 10*time.Second)
		_, err := both.Get(once, "k")
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}
