package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// onlyRoot calls as nobody, as a user and as root, at each of two members.
func onlyRoot(ctx context.Context, scene scene) error {
	changing, err := begin(ctx, scene, 2, lax)
	if err != nil {
		return err
	}
	learner := changing.plan()
	if err := errors.Join(changing.join(ctx, 0, learner, true),
		changing.awaitStarted(ctx, 0, learner)); err != nil {
		return err
	}
	id, err := changing.id(ctx, 0, learner)
	if err != nil {
		return err
	}
	known := &cluster{endpoints: changing.endpoints[:2]}
	return enforced(ctx, known, func(root *client) error {
		var all error
		for _, endpoint := range known.endpoints {
			nobody, err := connect([]string{endpoint})
			if err != nil {
				return err
			}
			defer nobody.Close()
			alice, err := connectAs([]string{endpoint}, "alice", "a")
			if err != nil {
				return err
			}
			defer alice.Close()
			all = errors.Join(all,
				changesRefused(ctx, nobody, id, rpctypes.ErrGRPCUserEmpty),
				changesRefused(ctx, alice, id, rpctypes.ErrGRPCPermissionDenied))
			// A user may read the list, nobody may not.
			service := pb.NewClusterClient(nobody.ActiveConnection())
			_, err = service.MemberList(ctx, &pb.MemberListRequest{Linearizable: true})
			all = errors.Join(all, expectRefused(err, rpctypes.ErrGRPCUserEmpty))
			list, err := alice.MemberList(ctx)
			if err == nil && len(list.Members) != 3 {
				err = fmt.Errorf("%v", list.Members)
			}
			all = errors.Join(all, err)
		}
		for number, endpoint := range known.endpoints {
			one, err := connectAs([]string{endpoint}, "root", "r")
			if err != nil {
				return err
			}
			defer one.Close()
			// etcd gives the same URL in the same second the same id, which may not come again.
			added, err := one.MemberAdd(ctx, []string{fmt.Sprintf("http://127.0.0.1:123%d", number)})
			if err != nil {
				return errors.Join(all, fmt.Errorf("root adds: %w", err))
			}
			_, err = one.MemberUpdate(ctx, added.Member.ID, []string{"http://127.0.0.1:1240"})
			all = errors.Join(all, err)
			_, err = one.MemberRemove(ctx, added.Member.ID)
			all = errors.Join(all, err)
		}
		// A follower must pass on the promotion with root's rights.
		follower, err := connectAs(known.endpoints[:1], "root", "r")
		if err != nil {
			return err
		}
		defer follower.Close()
		status, err := follower.Status(ctx, known.endpoints[0])
		if err != nil {
			return err
		}
		if status.Leader == status.Header.MemberId {
			follower, err = connectAs(known.endpoints[1:], "root", "r")
			if err != nil {
				return err
			}
			defer follower.Close()
		}
		err = unlessIs(ctx, rpctypes.ErrGRPCLearnerNotReady, func(ctx context.Context) error {
			service := pb.NewClusterClient(follower.ActiveConnection())
			_, err := service.MemberPromote(ctx, &pb.MemberPromoteRequest{ID: id})
			return err
		})
		if err != nil {
			err = fmt.Errorf("root promotes: %w", err)
		}
		return errors.Join(all, err)
	})
}

// changesRefused fails unless each change is refused with this error.
func changesRefused(ctx context.Context, client *client, id uint64, expected error) error {
	service := pb.NewClusterClient(client.ActiveConnection())
	urls := []string{"http://127.0.0.1:1234"}
	_, added := service.MemberAdd(ctx, &pb.MemberAddRequest{PeerURLs: urls})
	_, removed := service.MemberRemove(ctx, &pb.MemberRemoveRequest{ID: id})
	_, updated := service.MemberUpdate(ctx, &pb.MemberUpdateRequest{ID: id, PeerURLs: urls})
	_, promoted := service.MemberPromote(ctx, &pb.MemberPromoteRequest{ID: id})
	var all error
	for number, err := range []error{added, removed, updated, promoted} {
		if err := expectRefused(err, expected); err != nil {
			call := []string{"add", "remove", "update", "promote"}[number]
			all = errors.Join(all, fmt.Errorf("%s: %w", call, err))
		}
	}
	return all
}

// joinsWithUsers adds a member while users have passwords: the new member knows them, and serves
// what they wrote before.
func joinsWithUsers(ctx context.Context, scene scene) error {
	changing, err := begin(ctx, scene, 1, "--snapshot-count=2")
	if err != nil {
		return err
	}
	known := &cluster{endpoints: changing.endpoints[:1]}
	return enforced(ctx, known, func(root *client) error {
		alice, err := connectAs(known.endpoints, "alice", "a")
		if err != nil {
			return err
		}
		defer alice.Close()
		for number := range 11 {
			if _, err := alice.Put(ctx, fmt.Sprintf("users/%d", number), "v"); err != nil {
				return err
			}
		}
		second := changing.plan()
		added, err := root.MemberAdd(ctx, []string{changing.peers[second]})
		if err != nil {
			return err
		}
		list := changing.listOfJoiner(second, added.Members)
		if err := changing.launch(second, "existing", list); err != nil {
			return err
		}
		other := (*client)(nil)
		defer func() {
			if other != nil {
				other.Close()
			}
		}()
		err = until(ctx, func(ctx context.Context) (err error) {
			other, err = connectAs(changing.endpoints[second:], "alice", "a")
			return err
		})
		if err != nil {
			return err
		}
		if _, err := other.Put(ctx, "users/second", "v"); err != nil {
			return err
		}
		if _, err := other.Put(ctx, "others", "v"); err == nil {
			return errors.New("the new member takes a put that alice may not do")
		}
		var hashes []uint32
		for _, endpoint := range changing.endpoints {
			one, err := connectAs([]string{endpoint}, "root", "r")
			if err != nil {
				return err
			}
			defer one.Close()
			if _, err := one.Get(ctx, "users/second"); err != nil {
				return err
			}
			hash, err := one.HashKV(ctx, endpoint, 0)
			if err != nil {
				return err
			}
			hashes = append(hashes, hash.Hash)
		}
		if hashes[0] != hashes[1] {
			return fmt.Errorf("the hashes are %v", hashes)
		}
		return nil
	})
}

// wrongStart is a start of a member that was added, or of another one, which must end.
type wrongStart struct {
	state string
	// list is --initial-cluster, by members: 0 runs, 1 was added, and 2 is unknown.
	list func(zero, one, two string) []string
	// number is the member that is started.
	number, status int
	text           string
}

// endsAfter adds a learner to one member, and makes a wrong start on an empty folder. With the right
// flags the learner joins afterwards all the same.
func endsAfter(ctx context.Context, scene scene, wrongs ...wrongStart) error {
	changing, err := begin(ctx, scene, 1)
	if err != nil {
		return err
	}
	second, third := changing.plan(), changing.plan()
	if _, err := changing.add(ctx, 0, true, changing.peers[second]); err != nil {
		return err
	}
	zero, one, two := changing.listed(0), changing.listed(second), changing.listed(third)
	var all error
	for _, wrong := range wrongs {
		list := wrong.list(zero, one, two)
		_ = os.Remove(changing.logs[wrong.number])
		if err := changing.launch(wrong.number, wrong.state, list); err != nil {
			return err
		}
		err := changing.expectEnd(ctx, wrong.number, wrong.status, wrong.text)
		if err != nil {
			all = errors.Join(all, fmt.Errorf("%s %v: %w", wrong.state, list, err))
		}
		_ = os.RemoveAll(changing.data(wrong.number))
	}
	if err := changing.launch(second, "existing", []string{zero, one}); err != nil {
		return err
	}
	return errors.Join(all, changing.awaitStarted(ctx, 0, second), changing.expectProgress(ctx, 0))
}

// otherNames gives the member that runs another name in the list of one that joins, once before and
// once after the own name in the order of names. The URLs decide.
func otherNames(ctx context.Context, scene scene) error {
	changing, err := begin(ctx, scene, 1)
	if err != nil {
		return err
	}
	for _, name := range []string{"other", "a"} {
		second := changing.plan()
		if _, err := changing.add(ctx, 0, true, changing.peers[second]); err != nil {
			return err
		}
		list := []string{name + "=" + changing.peers[0], changing.listed(second)}
		if err := changing.launch(second, "existing", list); err != nil {
			return err
		}
		if err := changing.awaitStarted(ctx, 0, second); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := changing.removeNumber(ctx, 0, second); err != nil {
			return err
		}
		changing.cut(second)
	}
	return changing.expectProgress(ctx, 0)
}

// joinsAtOnce starts the first learner of a new member shortly after it has been added, in several
// clusters. It keeps the data that it begins with: Quorate sets aside what a removed member had.
func joinsAtOnce(ctx context.Context, scene scene) error {
	for round := range 8 {
		at := scene
		at.folder = filepath.Join(scene.folder, fmt.Sprint(round))
		changing, err := begin(ctx, at, 1)
		if err != nil {
			return err
		}
		learner := changing.plan()
		added, err := changing.add(ctx, 0, true, changing.peers[learner])
		if err != nil {
			return err
		}
		// The member that runs meanwhile tries to reach the new one, less and less often.
		time.Sleep(time.Duration(round) * 60 * time.Millisecond)
		list := changing.listOfJoiner(learner, added.Members)
		if err := changing.launch(learner, "existing", list); err != nil {
			return err
		}
		if err := changing.awaitStarted(ctx, 0, learner); err != nil {
			return err
		}
		aside, err := filepath.Glob(filepath.Join(changing.data(learner), "set-aside-*"))
		if err == nil && len(aside) > 0 {
			err = fmt.Errorf("in round %d it has joined twice: %v", round, aside)
		}
		if err != nil {
			return err
		}
		changing.end()
	}
	return nil
}

func listDoesNotFit(ctx context.Context, scene scene) error {
	nobody := freeAddress()
	const unequal, notItself = "member count is unequal", "couldn't find local name"
	return endsAfter(ctx, scene,
		wrongStart{"existing", func(zero, one, two string) []string {
			return []string{zero, one, two}
		}, 1, 1, unequal},
		wrongStart{"existing", func(zero, one, _ string) []string {
			return []string{zero, one, "m9=http://" + nobody}
		}, 1, 1, unequal},
		wrongStart{"existing", func(zero, _, two string) []string {
			return []string{zero, two}
		}, 2, 1, "PeerURLs: no match found for existing member"},
		wrongStart{"existing", func(zero, _, two string) []string {
			return []string{zero, two}
		}, 1, 1, notItself},
		wrongStart{"existing", func(_, one, _ string) []string {
			return []string{one}
		}, 1, 1, "could not retrieve cluster information from the given URLs"},
		wrongStart{"new", func(zero, _, two string) []string {
			return []string{zero, two}
		}, 1, 1, notItself})
}

// oneTooMany starts a member that nobody has added, with itself in the list of all.
func oneTooMany(ctx context.Context, scene scene) error {
	text := "member count is unequal"
	if scene.isQuorate {
		// It looks for its own URLs first, and counts then.
		text = "PeerURLs: no match found for existing member"
	}
	return endsAfter(ctx, scene, wrongStart{"existing", func(zero, one, two string) []string {
		return []string{zero, one, two}
	}, 2, 1, text})
}

func twiceTheSame(ctx context.Context, scene scene) error {
	return endsAfter(ctx, scene, wrongStart{"existing", func(zero, _, _ string) []string {
		_, url, _ := strings.Cut(zero, "=")
		return []string{zero, "m1=" + url}
	}, 1, 1, "has duplicate url"})
}

// reachesNobody has a wrong URL for the only other member. That one knows the URL of this member.
func reachesNobody(ctx context.Context, scene scene) error {
	elsewhere := freeAddress()
	if scene.isQuorate {
		// The other member dials it, and then it joins: docs/etcd.md, Changing the members.
		changing, err := begin(ctx, scene, 1)
		if err != nil {
			return err
		}
		added := changing.plan()
		if _, err := changing.add(ctx, 0, true, changing.peers[added]); err != nil {
			return err
		}
		list := []string{"m0=http://" + elsewhere, changing.listed(added)}
		if err := changing.launch(added, "existing", list); err != nil {
			return err
		}
		return changing.awaitStarted(ctx, 0, added)
	}
	return endsAfter(ctx, scene, wrongStart{"existing", func(_, one, _ string) []string {
		return []string{"m0=http://" + elsewhere, one}
	}, 1, 1, "could not retrieve cluster information from the given URLs"})
}

// notWhereItSays has another URL in --initial-cluster than in --initial-advertise-peer-urls.
func notWhereItSays(ctx context.Context, scene scene) error {
	return endsAfter(ctx, scene, wrongStart{"new", func(zero, _, _ string) []string {
		return []string{zero, "m1=http://127.0.0.1:1"}
	}, 1, 1, "--initial-cluster has m1=http://127.0.0.1:1 but missing from --initial-advertise-peer-urls="})
}

func unknownState(ctx context.Context, scene scene) error {
	return endsAfter(ctx, scene, wrongStart{"old", func(zero, one, _ string) []string {
		return []string{zero, one}
	}, 1, 2, "initial-cluster-state"})
}

// doesNotBeginAnew starts a member of three on an empty folder, with the flags that it had at first.
func doesNotBeginAnew(ctx context.Context, scene scene) error {
	changing, err := begin(ctx, scene, 3)
	if err != nil {
		return err
	}
	if err := errors.Join(changing.expectProgress(ctx, 0, 1, 2),
		changing.expectNumbers(ctx, 0, 0, 1, 2)); err != nil {
		return err
	}
	changing.cut(2)
	if err := os.RemoveAll(changing.data(2)); err != nil {
		return err
	}
	if err := changing.start(2); err != nil {
		return err
	}
	if scene.isQuorate {
		// It takes the place of the member that it was, with another identity: docs/etcd.md.
		return errors.Join(changing.awaitMember(ctx, 2), changing.expectProgress(ctx, 2, 0, 1))
	}
	return errors.Join(changing.expectEnd(ctx, 2, 1, "has already been bootstrapped"),
		changing.expectProgress(ctx, 0, 1))
}

// ctl runs etcdctl at member 0, and returns what it prints, on both channels.
func (changing *changing) ctl(ctx context.Context, etcdctl string, arguments ...string) string {
	all := append([]string{"--endpoints", changing.endpoints[0]}, arguments...)
	command := exec.CommandContext(ctx, etcdctl, all...)
	output, err := command.CombinedOutput()
	text := string(output)
	if err != nil {
		text += err.Error()
	}
	return text
}

// shape names the fields of a JSON value, without the values.
func shape(value any) string {
	switch value := value.(type) {
	case map[string]any:
		var fields []string
		for field, inner := range value {
			fields = append(fields, field+shape(inner))
		}
		slices.Sort(fields)
		return "{" + strings.Join(fields, " ") + "}"
	case []any:
		var fields []string
		for _, inner := range value {
			fields = append(fields, shape(inner))
		}
		return "[" + strings.Join(fields, " ") + "]"
	default:
		return ""
	}
}

// ctlPrints compares what etcdctl prints, in all forms, with patterns.
func ctlPrints(ctx context.Context, scene scene) error {
	if scene.etcdctl == "" {
		return errors.New("ETCDCTL names no etcdctl")
	}
	changing, err := begin(ctx, scene, 1)
	if err != nil {
		return err
	}
	if err := changing.expectNumbers(ctx, 0, 0); err != nil {
		return err
	}
	changing.plan()
	list, err := changing.list(ctx, 0, true)
	if err != nil {
		return err
	}
	own := fmt.Sprintf("%x", list.Members[0].ID)
	cluster := fmt.Sprintf(" *%x", list.Header.ClusterId)
	peer, added := regexp.QuoteMeta(changing.peers[0]), regexp.QuoteMeta(changing.peers[1])
	served := regexp.QuoteMeta("http://" + changing.endpoints[0])
	var all error
	expect := func(pattern string, arguments ...string) []string {
		text := changing.ctl(ctx, scene.etcdctl, arguments...)
		found := regexp.MustCompile("^" + pattern + "$").FindStringSubmatch(text)
		if found == nil {
			err := fmt.Errorf("%s prints %q, not %q", strings.Join(arguments, " "), text, pattern)
			all = errors.Join(all, err)
			return []string{"", "0"}
		}
		return found
	}
	expectJSON := func(fields string, arguments ...string) {
		text := changing.ctl(ctx, scene.etcdctl, append(arguments, "--write-out", "json")...)
		var value any
		decoder := json.NewDecoder(bytes.NewReader([]byte(text)))
		err := decoder.Decode(&value)
		if err == nil && shape(value) != fields {
			err = fmt.Errorf("the fields are %s, not %s", shape(value), fields)
		}
		if err != nil {
			err := fmt.Errorf("%s: %w in %q", strings.Join(arguments, " "), err, text)
			all = errors.Join(all, err)
		}
	}
	const header = "header{cluster_id member_id raft_term}"
	const started = "{ID clientURLs[] name peerURLs[]}"
	const notStarted = "{ID isLearner peerURLs[]}"
	const both = header + " members[" + started + " " + notStarted + "]"

	line := own + ", started, m0, " + peer + ", " + served + ", false\n"
	expect(line, "member", "list")
	expect(line, "member", "list", "--consistency", "s")
	expectJSON("{"+header+" members["+started+"]}", "member", "list")
	expectJSON("{"+header+" members["+started+"]}", "member", "list", "--hex")
	expect(`Error: bad member ID arg \(strconv.ParseUint: parsing "x": invalid syntax\), `+
		`expecting ID in Hex\nexit status 128`, "member", "remove", "x")

	peers := "--peer-urls=" + changing.peers[1]
	taken := "--peer-urls=" + changing.peers[0]
	// The two members are in the order of their ids.
	id := expect(`Member *([0-9a-f]+) added as learner to cluster`+cluster+`\n\n`+
		`ETCD_NAME="m1"\nETCD_INITIAL_CLUSTER="(?:m0=`+peer+`,m1=`+added+`|m1=`+added+`,m0=`+peer+`)"\n`+
		`ETCD_INITIAL_ADVERTISE_PEER_URLS="`+added+`"\nETCD_INITIAL_CLUSTER_STATE="existing"\n`,
		"member", "add", "m1", "--learner", peers)[1]
	learner := id + ", unstarted, , " + added + ", , true\n"
	expect("(?:"+line+learner+"|"+learner+line+")", "member", "list")
	expect(`(?s)\+-.*\| +ID +\| +STATUS +\| +NAME +\| +PEER ADDRS +\| +CLIENT ADDRS +\| +IS LEARNER +\|.*`+
		`\| +unstarted \|.*\| +true \|.*`, "member", "list", "--write-out", "table")
	expect(`(?s)"ClusterID" : \d+\n"MemberID" : \d+\n"RaftTerm" : \d+\n`+
		`"ID" : \d+\n.*"IsLearner" : true\n.*`, "member", "list", "--write-out", "fields")
	refused := func(text string) string { return `(?s).*Error: ` + text + `\nexit status 1` }
	expect(refused("etcdserver: Peer URLs already exists"), "member", "add", "m2", taken)
	expect(refused("etcdserver: Peer URLs already exists"), "member", "update", id, taken)
	expect(refused("etcdserver: too many learner members in cluster"),
		"member", "add", "m2", "--learner", "--peer-urls=http://127.0.0.1:1")
	expect(refused("etcdserver: member not found"), "member", "remove", "1")
	expect(refused("etcdserver: can only promote a learner member which is in sync with leader"),
		"member", "promote", id)
	expect(refused("etcdserver: can only promote a learner member"), "member", "promote", own)
	expect(refused("etcdserver: re-configuration failed due to not enough started members"),
		"member", "remove", own)
	expect(`Member *`+id+` updated in cluster`+cluster+`\n`, "member", "update", id, peers)

	members := func() string {
		text := changing.ctl(ctx, scene.etcdctl, "member", "list")
		if strings.HasPrefix(text, own) {
			return both
		}
		return header + " members[" + notStarted + " " + started + "]"
	}
	expectJSON("{"+members()+"}", "member", "list")
	expectJSON("{"+members()+"}", "member", "update", id, peers)
	expectJSON("{"+header+" members["+started+"]}", "member", "remove", id)
	expect(refused("etcdserver: member not found"), "member", "remove", id)

	// etcd gives the same URL in the same second the same id, which may not come again.
	changing.peers[1] = "http://" + freeAddress()
	added = regexp.QuoteMeta(changing.peers[1])
	text := changing.ctl(ctx, scene.etcdctl, "member", "add", "m1", "--learner",
		"--peer-urls="+changing.peers[1], "--write-out", "json")
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		return errors.Join(all, fmt.Errorf("%w in %q", err, text))
	}
	fields := "{" + members() + " member" + notStarted + "}"
	if shape(value) != fields {
		all = errors.Join(all, fmt.Errorf("add: the fields are %s, not %s", shape(value), fields))
	}
	learnerID, err := changing.id(ctx, 0, 1)
	if err != nil {
		return errors.Join(all, err)
	}
	found, err := changing.list(ctx, 0, true)
	if err != nil {
		return errors.Join(all, err)
	}
	if err := changing.launch(1, "existing", changing.listOfJoiner(1, found.Members)); err != nil {
		return err
	}
	if err := changing.awaitStarted(ctx, 0, 1); err != nil {
		return err
	}
	hex := fmt.Sprintf("%x", learnerID)
	err = unlessIs(ctx, rpctypes.ErrGRPCLearnerNotReady, func(ctx context.Context) error {
		text := changing.ctl(ctx, scene.etcdctl, "member", "promote", hex)
		if strings.Contains(text, "in sync with leader") {
			return rpctypes.ErrGRPCLearnerNotReady
		}
		pattern := `^Member *` + hex + ` promoted in cluster` + cluster + `\n$`
		if !regexp.MustCompile(pattern).MatchString(text) {
			return fmt.Errorf("promote prints %q, not %q", text, pattern)
		}
		return nil
	})
	all = errors.Join(all, err)
	served = regexp.QuoteMeta("http://" + changing.endpoints[1])
	second := hex + ", started, m1, " + added + ", " + served + ", false\n"
	expect("(?:"+line+second+"|"+second+line+")", "member", "list")
	return all
}
