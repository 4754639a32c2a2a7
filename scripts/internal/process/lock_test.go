package process

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLockIsExclusiveAndWaitingEndsWithTheContext(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "run", "lock")
	unlock, err := Lock(t.Context(), path, nil)
	require.NoError(t, err)
	_, taken, err := TryLock(path)
	require.NoError(t, err)
	require.False(t, taken)

	ctx, cancel := context.WithCancel(t.Context())
	_, err = Lock(ctx, path, cancel) // interrupted while it waits
	require.ErrorIs(t, err, context.Canceled)

	waits := make(chan struct{})
	got := make(chan error, 1)
	go func() {
		free, err := Lock(t.Context(), path, func() { close(waits) })
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
	first, err := Share(t.Context(), path)
	require.NoError(t, err)
	second, err := Share(t.Context(), path)
	require.NoError(t, err)
	first()
	_, taken, err := TryLock(path)
	require.NoError(t, err)
	require.False(t, taken, "the other still has its share")
	second()
	unlock, taken, err := TryLock(path)
	require.NoError(t, err)
	require.True(t, taken)
	unlock()
}

func TestConcurrentSaves(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "record.json")
	errs := make([]error, 20)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = Save(path, Identity{PID: i + 1, Boot: fmt.Sprint("boot ", i)}) })
	}
	wg.Wait()
	for _, err := range errs {
		require.NoError(t, err)
	}
	var id Identity
	found, err := Load(path, &id)
	require.NoError(t, err)
	require.True(t, found)
	left, err := filepath.Glob(filepath.Join(filepath.Dir(path), ".*"))
	require.NoError(t, err)
	require.Empty(t, left)
}
