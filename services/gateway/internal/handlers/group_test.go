package handlers

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/batch"
)

type anyLine struct{}

func (anyLine) Known(string) bool { return true }

// While four batches of a line's polls are in flight, all further polls become one batch.
func TestPollBatchesGrowWithTheLoad(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var sizes []int // the sizes of the batches, in the order in which they begin
		begun := func() []int {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(sizes)
		}
		answer := make(chan struct{})
		polls := newLineBatches(anyLine{}, pollBatchConfig(), func(_ context.Context, items []int) ([]batch.Result[int], error) {
			mu.Lock()
			sizes = append(sizes, len(items))
			mu.Unlock()
			<-answer
			return make([]batch.Result[int], len(items)), nil
		})
		var callers sync.WaitGroup
		ask := func(n int) {
			for i := range n {
				callers.Go(func() { _, _ = polls.Do(context.Background(), "line", i) })
			}
			synctest.Wait()
		}
		ask(1)
		time.Sleep(crowdDelay / 2) // of the test's own clock
		ask(3)
		require.Empty(t, begun(), "the delay has not passed")
		time.Sleep(crowdDelay)
		for n := 5; n <= 7; n++ {
			ask(n)
			time.Sleep(crowdOverlap)
			synctest.Wait()
		}
		require.Equal(t, []int{4, 5, 6, 7}, begun())

		ask(100)
		time.Sleep(crowdOverlap)
		ask(50)
		require.Equal(t, []int{4, 5, 6, 7}, begun(), "four are in flight")
		answer <- struct{}{}
		synctest.Wait()
		require.Equal(t, []int{4, 5, 6, 7, 150}, begun())
		close(answer)
		callers.Wait()
		require.NoError(t, polls.Close(t.Context()))
	})
}
