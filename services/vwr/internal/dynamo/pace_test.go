package dynamo

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"urr.guru/pkg/errs"
)

func TestBacklogRefusesWhatWouldWaitTooLong(t *testing.T) {
	t.Parallel()
	var b backlog
	for range 10_000 { // nothing is known yet
		if err := b.enter(); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		b.served(500, 5*time.Second) // 10 ms each
	}
	err := b.enter()
	if !errors.Is(err, errs.ErrOverloaded) || errs.From(err).RetryAfter < 90*time.Second {
		t.Errorf("behind 10,000 of 10 ms: %v", err)
	}
	for range 9_850 {
		b.leave()
	}
	if err := b.enter(); err != nil {
		t.Errorf("behind 150 of 10 ms: %v", err)
	}
}

func TestBacklogLearnsLittleFromSmallGroups(t *testing.T) {
	t.Parallel()
	var b backlog
	b.served(1, 40*time.Millisecond) // the gap between writes, not the cost of one
	for range 5_000 {
		if err := b.enter(); err != nil {
			t.Fatalf("refused after a small group: %v", err)
		}
	}
	b.served(100, 10*time.Second)
	if err := b.enter(); err == nil {
		t.Fatal("not refused though the store is slow")
	}
	b.served(1, 100*time.Microsecond) // it has recovered
	if err := b.enter(); err != nil {
		t.Errorf("refused though the store is fast again: %v", err)
	}
}

func TestPacerKeepsWritesApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := pacer{gap: counterGap, last: make(map[string]time.Time)}
		start := time.Now()
		for range 5 {
			if err := p.wait(t.Context(), "a"); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(start); took != 4*counterGap {
			t.Errorf("five writes took %v, want %v", took, 4*counterGap)
		}
		if err := p.wait(t.Context(), "b"); err != nil || time.Since(start) != 4*counterGap {
			t.Error("another event waits for the first")
		}
		for i := range 2 * pacerKeep {
			if err := p.wait(t.Context(), string(rune(i))); err != nil {
				t.Fatal(err)
			}
			time.Sleep(counterGap + 1)
		}
		if len(p.last) > pacerKeep {
			t.Errorf("%d events are remembered", len(p.last))
		}
	})
}
