package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

func connectAs(endpoints []string, name, password string) (*client, error) {
	return clientv3.New(clientv3.Config{
		Endpoints:   endpoints,
		DialTimeout: 5 * time.Second,
		Username:    name,
		Password:    password,
		Logger:      zap.NewNop(),
	})
}

// enforced runs work while permissions are enforced: root has the password `r`, and alice (`a`) may
// read and write the keys that begin with `users/`. There are no users afterwards.
func enforced(ctx context.Context, cluster *cluster, work func(root *client) error) error {
	plain, err := connect(cluster.endpoints)
	if err != nil {
		return err
	}
	defer plain.Close()
	end := clientv3.GetPrefixRangeEnd("users/")
	for _, step := range []func() error{
		func() error { _, err := plain.UserAdd(ctx, "root", "r"); return err },
		func() error { _, err := plain.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := plain.UserAdd(ctx, "alice", "a"); return err },
		func() error { _, err := plain.RoleAdd(ctx, "role"); return err },
		func() error {
			kind := clientv3.PermissionType(clientv3.PermReadWrite)
			_, err := plain.RoleGrantPermission(ctx, "role", "users/", end, kind)
			return err
		},
		func() error { _, err := plain.UserGrantRole(ctx, "alice", "role"); return err },
		func() error { _, err := plain.AuthEnable(ctx); return err },
	} {
		if err := step(); err != nil {
			return err
		}
	}
	root, err := connectAs(cluster.endpoints, "root", "r")
	if err != nil {
		return err
	}
	defer root.Close()
	if err := work(root); err != nil {
		return err
	}
	if _, err := root.AuthDisable(ctx); err != nil {
		return err
	}
	for _, name := range []string{"root", "alice"} {
		if _, err := plain.UserDelete(ctx, name); err != nil {
			return err
		}
	}
	_, err = plain.RoleDelete(ctx, "role")
	return err
}

// usersUnderKills puts, reads and watches as a user on all members while each is killed. What the
// user may not do is never done.
func usersUnderKills(ctx context.Context, cluster *cluster) error {
	return enforced(ctx, cluster, func(root *client) error {
		var isOver atomic.Bool
		work := func(number int) error {
			alice, err := connectAs(cluster.endpoints, "alice", "a")
			if err != nil {
				return err
			}
			defer alice.Close()
			key := fmt.Sprintf("users/%d", number)
			events := alice.Watch(ctx, key)
			count := 0
			for !isOver.Load() {
				_, err := alice.Put(ctx, key, fmt.Sprint(count))
				if isOfRights(err) {
					return fmt.Errorf("put %d: %w", count, err)
				}
				if err == nil {
					count++
				}
				_, err = alice.Put(ctx, fmt.Sprintf("others/%d", number), "x")
				if err == nil {
					return errors.New("a put without the right to it is taken")
				}
			}
			seen := 0
			for seen < count {
				select {
				case response, isOpen := <-events:
					if !isOpen || response.Err() != nil {
						return fmt.Errorf("the watch has ended: %v", response.Err())
					}
					seen += len(response.Events)
				case <-ctx.Done():
					return fmt.Errorf("%d events of %d puts: %w", seen, count, ctx.Err())
				}
			}
			return nil
		}
		kills := func() error {
			defer isOver.Store(true)
			for number := range cluster.running {
				time.Sleep(time.Second)
				cluster.kill(number)
				if err := cluster.start(number); err != nil {
					return err
				}
				one := cluster.endpoints[number : number+1]
				err := until(ctx, func(ctx context.Context) error {
					alice, err := connectAs(one, "alice", "a")
					if err != nil {
						return err
					}
					defer alice.Close()
					once, cancel := context.WithTimeout(ctx, 2*time.Second)
					defer cancel()
					_, err = alice.Get(once, "users/0")
					return err
				})
				if err != nil {
					return err
				}
			}
			return nil
		}
		err := inParallel(4, func(number int) error {
			if number == 3 {
				return kills()
			}
			return work(number)
		})
		if err != nil {
			return err
		}
		found, err := root.Get(ctx, "others/", clientv3.WithPrefix())
		if err == nil && found.Count != 0 {
			err = fmt.Errorf("there are %d keys that nobody had the right to put", found.Count)
		}
		return err
	})
}

// isOfRights tells whether a call of somebody who has the right to it was refused for want of it.
func isOfRights(err error) bool {
	for _, of := range []error{
		rpctypes.ErrPermissionDenied, rpctypes.ErrUserEmpty, rpctypes.ErrInvalidAuthToken,
	} {
		if errors.Is(err, of) {
			return true
		}
	}
	return false
}

// changedPassword takes the rights from a client whose password is another one by now, and leaves
// them to a client that knows it.
func changedPassword(ctx context.Context, cluster *cluster) error {
	return enforced(ctx, cluster, func(root *client) error {
		alice, err := connectAs(cluster.endpoints, "alice", "a")
		if err != nil {
			return err
		}
		defer alice.Close()
		if _, err := alice.Put(ctx, "users/a", "1"); err != nil {
			return err
		}
		if _, err := root.UserChangePassword(ctx, "alice", "b"); err != nil {
			return err
		}
		if _, err := alice.Put(ctx, "users/a", "2"); err == nil {
			return errors.New("the old password is good")
		}
		changed, err := connectAs(cluster.endpoints, "alice", "b")
		if err != nil {
			return err
		}
		defer changed.Close()
		_, err = changed.Put(ctx, "users/a", "3")
		return err
	})
}
