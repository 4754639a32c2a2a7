// Package filelock locks files, so that only one process at a time does a piece of work. The kernel
// releases the locks of a process that ends, even if it is killed.
package filelock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Lock takes an exclusive lock on a file, and waits for it at most until ctx ends. If it has to
// wait it first calls waiting, unless that is nil.
func Lock(ctx context.Context, path string, waiting func()) (unlock func(), err error) {
	return lock(ctx, path, syscall.LOCK_EX, waiting)
}

// LockShared takes a lock that several processes may hold at once if none holds the exclusive lock.
func LockShared(ctx context.Context, path string) (unlock func(), err error) {
	return lock(ctx, path, syscall.LOCK_SH, nil)
}

// TryLock takes an exclusive lock if it is free; taken is false if it is not.
func TryLock(path string) (unlock func(), taken bool, err error) {
	f, err := openFile(path)
	if err != nil {
		return nil, false, err
	}
	taken, err = tryLock(f, syscall.LOCK_EX)
	if !taken {
		return nil, false, errors.Join(err, f.Close())
	}
	return func() { unlockAndClose(f) }, true, nil
}

// lock polls, because a blocking flock cannot be interrupted.
func lock(ctx context.Context, path string, mode int, waiting func()) (unlock func(), err error) {
	const pollInterval = 50 * time.Millisecond
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	for {
		taken, err := tryLock(f, mode)
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if taken {
			return func() { unlockAndClose(f) }, nil
		}
		if waiting != nil {
			waiting()
			waiting = nil
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(fmt.Errorf("wait for %s: %w", path, ctx.Err()), f.Close())
		case <-time.After(pollInterval):
		}
	}
}

func openFile(path string) (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("make a folder for the lock: %w", err)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	return f, nil
}

func tryLock(f *os.File, mode int) (taken bool, err error) {
	err = syscall.Flock(int(f.Fd()), mode|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return true, nil
}

// unlockAndClose releases the lock explicitly. Closing is not enough: a child process that is being
// started has a copy of the open file, and so the lock, until it executes its program.
func unlockAndClose(f *os.File) {
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_UN)
	_ = f.Close()
}
