package filelock_test

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/filelock"
)

func TestLockIsExclusiveAndWaitingEndsWithTheContext(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "run", "lock")
	unlock, err := filelock.Lock(t.Context(), path, nil)
	require.NoError(t, err)
	_, taken, err := filelock.TryLock(path)
	require.NoError(t, err)
	require.False(t, taken)

	ctx, cancel := context.WithCancel(t.Context())
	_, err = filelock.Lock(ctx, path, cancel) // Lock calls cancel when it has to wait
	require.ErrorIs(t, err, context.Canceled)

	waits := make(chan struct{})
	got := make(chan error, 1)
	go func() {
		free, err := filelock.Lock(t.Context(), path, func() { close(waits) })
		if err == nil {
			free()
		}
		got <- err
	}()
	<-waits
	unlock()
	require.NoError(t, <-got)
}

func TestShareIsSharedAndLockIsExclusive(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	first, err := filelock.LockShared(t.Context(), path)
	require.NoError(t, err)
	second, err := filelock.LockShared(t.Context(), path)
	require.NoError(t, err)
	first()
	_, taken, err := filelock.TryLock(path)
	require.NoError(t, err)
	require.False(t, taken, "the other still has its share")
	second()
	unlock, taken, err := filelock.TryLock(path)
	require.NoError(t, err)
	require.True(t, taken)
	unlock()
}

// The copy stands for a child process, which has one from its start until it executes its program.
func TestUnlockIsNotDelayedByACopyOfTheOpenFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	unlock, taken, err := filelock.TryLock(path)
	require.NoError(t, err)
	require.True(t, taken)
	duplicate(t, path)
	unlock()
	unlock, taken, err = filelock.TryLock(path)
	require.NoError(t, err)
	require.True(t, taken)
	unlock()
}

// duplicate copies this process's descriptor of the file. The copy stays open until the test ends.
func duplicate(t *testing.T, path string) {
	t.Helper()
	descriptors, err := os.ReadDir("/proc/self/fd")
	require.NoError(t, err)
	for _, entry := range descriptors {
		if target, err := os.Readlink(filepath.Join("/proc/self/fd", entry.Name())); err != nil || target != path {
			continue
		}
		fd, err := strconv.Atoi(entry.Name())
		require.NoError(t, err)
		copied, err := syscall.Dup(fd)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, syscall.Close(copied)) })
		return
	}
	require.Fail(t, "the file is not open")
}
