package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// permanentlyRemoved is what a member says when it ends because of its removal.
const permanentlyRemoved = "the member has been permanently removed from the cluster"

func threeToSix(ctx context.Context, scene scene) error {
	changing, err := begin(ctx, scene, 3, lax)
	if err != nil {
		return err
	}
	for range 3 {
		if err := changing.join(ctx, 0, changing.plan(), false); err != nil {
			return err
		}
	}
	all := []int{5, 4, 3, 2, 1, 0}
	if err := errors.Join(changing.expectNumbers(ctx, 5, all...),
		changing.expectProgress(ctx, all...)); err != nil {
		return err
	}
	// Those that came vote: with two of them gone, four of six are a majority.
	changing.cut(0, 1)
	return changing.expectProgress(ctx, 5, 4, 3, 2)
}

func fiveToOne(ctx context.Context, scene scene) error {
	changing, err := begin(ctx, scene, 5, lax)
	if err != nil {
		return err
	}
	for number := 4; number > 0; number-- {
		if err := changing.removeNumber(ctx, 0, number); err != nil {
			return err
		}
		if err := changing.expectEnd(ctx, number, 0, permanentlyRemoved); err != nil {
			return err
		}
		if err := changing.expectProgress(ctx, 0); err != nil {
			return err
		}
	}
	return changing.expectNumbers(ctx, 0, 0)
}

func oneToThreeToOne(ctx context.Context, scene scene) error {
	changing, err := begin(ctx, scene, 1)
	if err != nil {
		return err
	}
	for range 2 {
		if err := changing.join(ctx, 0, changing.plan(), false); err != nil {
			return err
		}
	}
	if err := errors.Join(changing.expectNumbers(ctx, 2, 0, 1, 2),
		changing.expectProgress(ctx, 1, 2, 0)); err != nil {
		return err
	}
	for number := range 2 {
		if err := changing.removeNumber(ctx, 2, number); err != nil {
			return err
		}
		if err := changing.expectEnd(ctx, number, 0, permanentlyRemoved); err != nil {
			return err
		}
	}
	return errors.Join(changing.expectNumbers(ctx, 2, 2), changing.expectProgress(ctx, 2))
}

func fullRotation(ctx context.Context, scene scene) error {
	changing, err := begin(ctx, scene, 3, lax)
	if err != nil {
		return err
	}
	for number := range 3 {
		if err := changing.removeNumber(ctx, number+1, number); err != nil {
			return err
		}
		if err := changing.expectEnd(ctx, number, 0, permanentlyRemoved); err != nil {
			return err
		}
		if err := changing.expectProgress(ctx, number+1); err != nil {
			return err
		}
		if err := changing.join(ctx, number+1, changing.plan(), false); err != nil {
			return err
		}
	}
	if err := changing.join(ctx, 3, changing.plan(), false); err != nil {
		return err
	}
	return errors.Join(changing.expectNumbers(ctx, 6, 3, 4, 5, 6),
		changing.expectProgress(ctx, 6, 5, 4, 3))
}

// changeAtOnce tries to add a voter and a learner, and to remove a member, at the moment at which
// all members serve, and again when they have been connected for a while. With Quorate a link counts
// at once: docs/etcd.md, Changing the members.
func changeAtOnce(ctx context.Context, scene scene) error {
	const health = 5 * time.Second
	changing, err := begin(ctx, scene, 3)
	if err != nil {
		return err
	}
	id, err := changing.id(ctx, 0, 2)
	if err != nil {
		return err
	}
	calls := []func() error{
		func() error { _, err := changing.add(ctx, 0, true, "http://127.0.0.1:1234"); return err },
		func() error { _, err := changing.add(ctx, 0, false, "http://127.0.0.1:1235"); return err },
		func() error { _, err := changing.remove(ctx, 0, id); return err },
	}
	for isLate := !scene.isQuorate; isLate; {
		// A machine that is too slow for the moment tries again.
		changing.cut(1, 2)
		began := time.Now()
		if err := errors.Join(changing.start(1), changing.restart(ctx, 2),
			changing.awaitMember(ctx, 1), changing.expectProgress(ctx, 0)); err != nil {
			return err
		}
		var all error
		for _, call := range calls {
			all = errors.Join(all, expectRefused(call(), rpctypes.ErrGRPCUnhealthy))
		}
		if isLate = time.Since(began) > health; !isLate && all != nil {
			return all
		}
		if isLate && all != nil {
			return errors.Join(all, errors.New("the machine is too slow for this"))
		}
	}
	for _, call := range calls {
		if err := onceHealthy(ctx, func(context.Context) error { return call() }); err != nil {
			return err
		}
	}
	return changing.expectProgress(ctx, 0, 1)
}

func addWhileDown(ctx context.Context, scene scene) error {
	changing, err := begin(ctx, scene, 3)
	if err != nil {
		return err
	}
	if err := changing.expectNumbers(ctx, 0, 0, 1, 2); err != nil {
		return err
	}
	changing.cut(0)
	if err := changing.expectProgress(ctx, 1, 2); err != nil {
		return err
	}
	url := "unix://foo:12345"
	add := func(at int, isLearner bool) error {
		_, err := changing.add(ctx, at, isLearner, url)
		return err
	}
	for _, at := range []int{1, 2} {
		for _, isLearner := range []bool{false, true} {
			err := expectRefused(add(at, isLearner), rpctypes.ErrGRPCUnhealthy)
			if err != nil {
				return fmt.Errorf("at m%d, learner %v: %w", at, isLearner, err)
			}
		}
	}
	if err := changing.restart(ctx, 0); err != nil {
		return err
	}
	return onceHealthy(ctx, func(context.Context) error { return add(1, false) })
}

func addWhileOneOfFourDown(ctx context.Context, scene scene) error {
	changing, err := begin(ctx, scene, 4)
	if err != nil {
		return err
	}
	if err := changing.expectNumbers(ctx, 0, 0, 1, 2, 3); err != nil {
		return err
	}
	changing.cut(0)
	if err := changing.expectProgress(ctx, 3, 2, 1); err != nil {
		return err
	}
	return onceHealthy(ctx, func(ctx context.Context) error {
		_, err := changing.add(ctx, 3, true, "http://10.0.0.12:2380")
		return err
	})
}

func removeWhileDown(ctx context.Context, scene scene) error {
	changing, err := begin(ctx, scene, 5)
	if err != nil {
		return err
	}
	if err := changing.expectNumbers(ctx, 0, 0, 1, 2, 3, 4); err != nil {
		return err
	}
	changing.cut(0, 1)
	if err := changing.expectProgress(ctx, 2, 3, 4); err != nil {
		return err
	}
	remove := func(at, number int) error {
		id, err := changing.id(ctx, at, number)
		if err != nil {
			return err
		}
		_, err = changing.remove(ctx, at, id)
		return err
	}
	// Without m2 two of four would run.
	if err := expectRefused(remove(3, 2), rpctypes.ErrGRPCUnhealthy); err != nil {
		return fmt.Errorf("a member that runs: %w", err)
	}
	_, err = changing.add(ctx, 3, true, "http://10.0.0.12:2380")
	if err := expectRefused(err, rpctypes.ErrGRPCUnhealthy); err != nil {
		return fmt.Errorf("a learner: %w", err)
	}
	if err := onceHealthy(ctx, func(context.Context) error { return remove(2, 0) }); err != nil {
		return fmt.Errorf("a member that is down: %w", err)
	}
	if err := changing.restart(ctx, 1); err != nil {
		return err
	}
	// All four run, so one can be spared, once m1 has been there for a while.
	if err := onceHealthy(ctx, func(context.Context) error { return remove(2, 1) }); err != nil {
		return fmt.Errorf("a member that came back: %w", err)
	}
	return errors.Join(changing.expectEnd(ctx, 1, 0, permanentlyRemoved),
		changing.expectNumbers(ctx, 2, 2, 3, 4), changing.expectProgress(ctx, 4, 3, 2))
}

func replaced(ctx context.Context, scene scene) error {
	return replace(ctx, scene, false)
}

func replacedAsLearner(ctx context.Context, scene scene) error {
	return replace(ctx, scene, true)
}

// replace removes a member with strict checks, deletes its data, and adds it under the same name and
// URLs.
func replace(ctx context.Context, scene scene, isLearner bool) error {
	changing, err := begin(ctx, scene, 3)
	if err != nil {
		return err
	}
	if err := errors.Join(changing.expectProgress(ctx, 0, 1, 2),
		changing.expectNumbers(ctx, 0, 0, 1, 2)); err != nil {
		return err
	}
	leader, err := changing.leader(ctx, 0)
	if err != nil {
		return err
	}
	// Once the leader goes, and once a follower.
	goes := leader
	if isLearner {
		goes = (leader + 1) % 3
	}
	at, other := (goes+1)%3, (goes+2)%3
	before, err := changing.id(ctx, at, goes)
	if err != nil {
		return err
	}
	if err := changing.removeNumber(ctx, at, goes); err != nil {
		return err
	}
	if err := changing.expectEnd(ctx, goes, 0, permanentlyRemoved); err != nil {
		return err
	}
	if err := os.RemoveAll(changing.data(goes)); err != nil {
		return err
	}
	// etcd's issue 16687: a member that comes at once may be told of the members from before.
	time.Sleep(100 * time.Millisecond)
	if err := changing.join(ctx, at, goes, isLearner); err != nil {
		return err
	}
	if isLearner {
		if err := errors.Join(changing.awaitStarted(ctx, at, goes),
			changing.promoteNumber(ctx, at, goes)); err != nil {
			return err
		}
	}
	after, err := changing.id(ctx, at, goes)
	if err == nil && after == before {
		err = fmt.Errorf("it has its former id %x", after)
	}
	if err := errors.Join(err, changing.expectNumbers(ctx, other, 0, 1, 2),
		changing.expectProgress(ctx, goes, at, other)); err != nil {
		return err
	}
	changing.cut(other)
	return changing.expectProgress(ctx, goes, at)
}

// removedAndAdded writes enough for snapshots, then removes the last of five and adds another.
func removedAndAdded(ctx context.Context, scene scene) error {
	changing, err := begin(ctx, scene, 5, lax, "--snapshot-count=10")
	if err != nil {
		return err
	}
	for range 20 {
		if err := changing.expectProgress(ctx, 0, 1, 2, 3, 4); err != nil {
			return err
		}
	}
	if err := changing.removeNumber(ctx, 0, 4); err != nil {
		return err
	}
	if err := changing.join(ctx, 0, changing.plan(), false); err != nil {
		return err
	}
	return errors.Join(changing.expectNumbers(ctx, 5, 0, 1, 2, 3, 5),
		changing.expectProgress(ctx, 5, 0, 1, 2, 3))
}

// justAdded removes a third member while it is down again, and starts it.
func justAdded(ctx context.Context, scene scene) error {
	changing, err := begin(ctx, scene, 2, lax)
	if err != nil {
		return err
	}
	third := changing.plan()
	if err := changing.join(ctx, 0, third, false); err != nil {
		return err
	}
	changing.cut(third)
	if err := changing.removeNumber(ctx, 0, third); err != nil {
		return err
	}
	if err := changing.start(third); err != nil {
		return err
	}
	return errors.Join(changing.expectEnd(ctx, third, eitherStatus, permanentlyRemoved),
		changing.expectNumbers(ctx, 1, 0, 1), changing.expectProgress(ctx, 0, 1))
}

func followsNewcomer(ctx context.Context, scene scene) error {
	changing, err := begin(ctx, scene, 3, lax)
	if err != nil {
		return err
	}
	if err := changing.expectNumbers(ctx, 1, 0, 1, 2); err != nil {
		return err
	}
	changing.cut(0)
	if err := changing.expectProgress(ctx, 1, 2); err != nil {
		return err
	}
	fourth := changing.plan()
	if err := changing.join(ctx, 1, fourth, false); err != nil {
		return err
	}
	if err := changing.moveLeader(ctx, 1, fourth); err != nil {
		return err
	}
	if err := changing.restart(ctx, 0); err != nil {
		return err
	}
	if err := changing.expectProgress(ctx, 0, 1, 2, fourth); err != nil {
		return err
	}
	leader, err := changing.leader(ctx, 0)
	if err == nil && leader != fourth {
		err = fmt.Errorf("m%d leads, not m%d", leader, fourth)
	}
	return err
}

// removedEnds starts a removed member again, with its data: it ends each time, and says why. With an
// empty folder it is no member either.
func removedEnds(ctx context.Context, scene scene) error {
	changing, err := begin(ctx, scene, 3, lax)
	if err != nil {
		return err
	}
	if err := changing.expectProgress(ctx, 0, 1, 2); err != nil {
		return err
	}
	id, err := changing.id(ctx, 0, 2)
	if err != nil {
		return err
	}
	if err := changing.removeNumber(ctx, 0, 2); err != nil {
		return err
	}
	if err := changing.expectEnd(ctx, 2, 0, permanentlyRemoved); err != nil {
		return err
	}
	for _, state := range []string{"new", "existing"} {
		_ = os.Remove(changing.logs[2])
		list := []string{changing.listed(0), changing.listed(1), changing.listed(2)}
		if err := changing.launch(2, state, list); err != nil {
			return err
		}
		if err := changing.expectEnd(ctx, 2, eitherStatus, permanentlyRemoved); err != nil {
			return fmt.Errorf("again, as %s: %w", state, err)
		}
	}
	_, again := changing.remove(ctx, 0, id)
	_, moved := changing.update(ctx, 0, id, changing.peers[2])
	_, voted := changing.promote(ctx, 0, id)
	return errors.Join(expectRefused(again, rpctypes.ErrGRPCMemberNotFound),
		expectRefused(moved, rpctypes.ErrGRPCMemberNotFound),
		expectRefused(voted, rpctypes.ErrGRPCMemberNotFound),
		changing.expectNumbers(ctx, 1, 0, 1), changing.expectProgress(ctx, 0, 1))
}

func removedWhileDown(ctx context.Context, scene scene) error {
	changing, err := begin(ctx, scene, 3)
	if err != nil {
		return err
	}
	if err := changing.expectNumbers(ctx, 0, 0, 1, 2); err != nil {
		return err
	}
	changing.cut(2)
	if err := changing.expectProgress(ctx, 0, 1); err != nil {
		return err
	}
	// A member that is down can be removed at once, also with strict checks.
	if err := changing.removeNumber(ctx, 0, 2); err != nil {
		return err
	}
	if err := changing.start(2); err != nil {
		return err
	}
	return errors.Join(changing.expectEnd(ctx, 2, eitherStatus, permanentlyRemoved),
		changing.expectNumbers(ctx, 0, 0, 1), changing.expectProgress(ctx, 0, 1))
}

func leaderRemovesItself(ctx context.Context, scene scene) error {
	return removesItself(ctx, scene, true)
}

func followerRemovesItself(ctx context.Context, scene scene) error {
	return removesItself(ctx, scene, false)
}

// removesItself asks a member for its own removal. etcd's may end before it answers.
func removesItself(ctx context.Context, scene scene, isLeader bool) error {
	changing, err := begin(ctx, scene, 3, lax)
	if err != nil {
		return err
	}
	if err := changing.expectNumbers(ctx, 0, 0, 1, 2); err != nil {
		return err
	}
	goes, err := changing.leader(ctx, 0)
	if err != nil {
		return err
	}
	if !isLeader {
		goes = (goes + 1) % 3
	}
	id, err := changing.id(ctx, goes, goes)
	if err != nil {
		return err
	}
	once, cancel := context.WithTimeout(ctx, callPatience/2)
	defer cancel()
	if _, err := changing.remove(once, goes, id); err != nil && scene.isQuorate {
		return err
	}
	first, second := (goes+1)%3, (goes+2)%3
	return errors.Join(changing.expectEnd(ctx, goes, 0, permanentlyRemoved),
		changing.expectProgress(ctx, first, second),
		changing.expectNumbers(ctx, first, first, second))
}

// promoted adds a learner to one member: while it has no vote it may come and go. With its vote the
// other cannot do without it.
func promoted(ctx context.Context, scene scene) error {
	changing, err := begin(ctx, scene, 1)
	if err != nil {
		return err
	}
	learner := changing.plan()
	if err := errors.Join(changing.join(ctx, 0, learner, true),
		changing.awaitStarted(ctx, 0, learner)); err != nil {
		return err
	}
	changing.cut(learner)
	if err := changing.expectProgress(ctx, 0); err != nil {
		return err
	}
	if err := changing.start(learner); err != nil {
		return err
	}
	if err := changing.promoteNumber(ctx, 0, learner); err != nil {
		return err
	}
	if err := changing.expectProgress(ctx, learner, 0); err != nil {
		return err
	}
	id, err := changing.id(ctx, 0, learner)
	if err != nil {
		return err
	}
	_, err = changing.promote(ctx, 0, id)
	if err := expectRefused(err, rpctypes.ErrGRPCMemberNotLearner); err != nil {
		return err
	}
	changing.cut(learner)
	client, err := changing.client(0)
	if err != nil {
		return err
	}
	once, cancel := context.WithTimeout(ctx, callPatience/5)
	defer cancel()
	if _, err := client.Put(once, "alone", "v"); err == nil {
		return errors.New("a put is taken without the second voter")
	}
	return errors.Join(changing.restart(ctx, learner), changing.expectProgress(ctx, learner, 0))
}

// notInSync asks a follower for the promotion of a learner that has not started, and of one that
// has little of the log.
func notInSync(ctx context.Context, scene scene) error {
	changing, err := begin(ctx, scene, 3, lax)
	if err != nil {
		return err
	}
	leader, err := changing.leader(ctx, 0)
	if err != nil {
		return err
	}
	at := (leader + 1) % 3
	learner := changing.plan()
	added, err := changing.add(ctx, at, true, changing.peers[learner])
	if err != nil {
		return err
	}
	refused := func() error {
		_, err := changing.promote(ctx, at, added.Member.ID)
		return expectRefused(err, rpctypes.ErrGRPCLearnerNotReady)
	}
	if err := refused(); err != nil {
		return fmt.Errorf("before its start: %w", err)
	}
	list := changing.listOfJoiner(learner, added.Members)
	if err := changing.launch(learner, "existing", list); err != nil {
		return err
	}
	if err := changing.awaitStarted(ctx, at, learner); err != nil {
		return err
	}
	changing.cut(learner)
	client, err := changing.client(at)
	if err != nil {
		return err
	}
	for number := range 60 {
		put := clientv3.OpPut(fmt.Sprint(number), "v")
		if _, err := client.Do(ctx, put); err != nil {
			return err
		}
	}
	if err := refused(); err != nil {
		return fmt.Errorf("behind: %w", err)
	}
	if err := changing.start(learner); err != nil {
		return err
	}
	return errors.Join(changing.promoteNumber(ctx, at, learner),
		changing.expectProgress(ctx, learner, 0, 1, 2), changing.expectNumbers(ctx, learner, 0, 1, 2, 3))
}

// moved gives each member another peer URL, one after the other, and starts it there.
func moved(ctx context.Context, scene scene) error {
	changing, err := begin(ctx, scene, 3)
	if err != nil {
		return err
	}
	for number := range 3 {
		at := (number + 1) % 3
		id, err := changing.id(ctx, at, number)
		if err != nil {
			return err
		}
		changing.peers[number] = "http://" + freeAddress()
		updated, err := changing.update(ctx, at, id, changing.peers[number])
		if err != nil {
			return err
		}
		if len(updated.Members) != 3 {
			return fmt.Errorf("%v", updated.Members)
		}
		if err := changing.expectNumbers(ctx, at, 0, 1, 2); err != nil {
			return err
		}
		changing.cut(number)
		list := []string{changing.listed(0), changing.listed(1), changing.listed(2)}
		if err := changing.launch(number, "existing", list); err != nil {
			return err
		}
		if err := changing.awaitMember(ctx, number); err != nil {
			return fmt.Errorf("m%d does not serve at its new URL: %w", number, err)
		}
	}
	if err := errors.Join(changing.expectNumbers(ctx, 0, 0, 1, 2),
		changing.expectProgress(ctx, 0, 1, 2)); err != nil {
		return err
	}
	changing.cut(0)
	return changing.expectProgress(ctx, 2, 1)
}
