package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// backedUp takes a backup of each member while another client writes. bbolt finds each file sound;
// and at the revision of the backup, and at earlier ones, the keys in it are those of the server.
func backedUp(ctx context.Context, cluster *cluster) error {
	for _, endpoint := range cluster.endpoints {
		client, err := connect([]string{endpoint})
		if err != nil {
			return err
		}
		err = backedUpBy(ctx, client)
		client.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func backedUpBy(ctx context.Context, client *client) error {
	key := func(number int) string { return fmt.Sprintf("backup/%03d", number%120) }
	for number := range 1_500 {
		if _, err := client.Put(ctx, key(number*7), strconv.Itoa(number)); err != nil {
			return err
		}
		if number%10 == 0 {
			if _, err := client.Delete(ctx, key(number*3)); err != nil {
				return err
			}
		}
	}
	if _, err := client.Put(ctx, "backup/large", string(make([]byte, 1_000_000))); err != nil {
		return err
	}
	last, err := client.Put(ctx, "backup/last", "acknowledged before")
	if err != nil {
		return err
	}
	if _, err := client.Compact(ctx, last.Header.Revision-600); err != nil {
		return err
	}
	writes, stop := context.WithCancel(ctx)
	stopped := make(chan struct{})
	go func() {
		defer close(stopped)
		for number := 0; writes.Err() == nil; number++ {
			client.Put(writes, key(number), "meanwhile")
		}
	}()
	path, err := download(ctx, client)
	stop()
	<-stopped
	if err != nil {
		return err
	}
	defer os.Remove(path)
	versions, err := readBackup(path)
	if err != nil {
		return err
	}
	newest := versions[len(versions)-1].revision
	if newest < last.Header.Revision {
		return fmt.Errorf("the backup ends at %d, before %d", newest, last.Header.Revision)
	}
	for _, revision := range []int64{newest, newest - 1, last.Header.Revision, newest - 300} {
		if err := compareAt(ctx, client, versions, revision); err != nil {
			return err
		}
	}
	return nil
}

// download saves a backup and checks the hash behind it, which is cut off.
func download(ctx context.Context, client *client) (string, error) {
	response, err := client.SnapshotWithVersion(ctx)
	if err != nil {
		return "", err
	}
	defer response.Snapshot.Close()
	if response.Version != "3.6.0" {
		return "", fmt.Errorf("the backup has version %q", response.Version)
	}
	all, err := io.ReadAll(response.Snapshot)
	if err != nil {
		return "", err
	}
	split := len(all) - sha256.Size
	if split < 0 || split%512 != 0 {
		return "", fmt.Errorf("a backup of %d bytes", len(all))
	}
	if sum := sha256.Sum256(all[:split]); !bytes.Equal(sum[:], all[split:]) {
		return "", errors.New("the hash of the backup is wrong")
	}
	path := filepath.Join(os.TempDir(), fmt.Sprintf("go-smoke-%d.db", os.Getpid()))
	return path, os.WriteFile(path, all[:split], 0o600)
}

// version is a version of a key in a backup.
type version struct {
	revision int64
	isDelete bool
	kv       mvccpb.KeyValue
}

// readBackup checks all of a file and returns its versions by revision.
func readBackup(path string) ([]version, error) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
	if err != nil {
		return nil, err
	}
	defer db.Close()
	var versions []version
	err = db.View(func(tx *bolt.Tx) error {
		for unsound := range tx.Check() {
			return unsound
		}
		return tx.Bucket([]byte("key")).ForEach(func(key, value []byte) error {
			read := version{
				revision: int64(binary.BigEndian.Uint64(key)),
				isDelete: len(key) == 18 && key[17] == 't',
			}
			if err := read.kv.Unmarshal(value); err != nil {
				return err
			}
			versions = append(versions, read)
			return nil
		})
	})
	if err == nil && len(versions) == 0 {
		err = errors.New("the backup is empty")
	}
	return versions, err
}

// compareAt compares the keys of a backup at a revision with those that the server has there.
func compareAt(
	ctx context.Context, client *client, versions []version, revision int64,
) error {
	present := map[string]mvccpb.KeyValue{}
	for _, version := range versions {
		if version.revision > revision {
			break
		}
		if version.isDelete {
			delete(present, string(version.kv.Key))
		} else {
			present[string(version.kv.Key)] = version.kv
		}
	}
	found, err := client.Get(ctx, "\x00", clientv3.WithFromKey(), clientv3.WithRev(revision))
	if err != nil {
		return err
	}
	if len(found.Kvs) != len(present) {
		return fmt.Errorf("%d keys at %d, not %d", len(present), revision, len(found.Kvs))
	}
	for _, kv := range found.Kvs {
		if saved, ok := present[string(kv.Key)]; !ok || saved.String() != kv.String() {
			return fmt.Errorf("%q at revision %d is %v, not %v", kv.Key, revision, &saved, kv)
		}
	}
	return nil
}
