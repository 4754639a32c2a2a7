package redis_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/services/queue/internal/line"
)

func TestOutageParksNobody(t *testing.T) {
	f := setup(t, 1)
	f.tick()
	// An empty line is not ticked. This must not count as an outage: a later outage within 300 s would
	// then not count.
	f.advance(time.Hour)
	in := f.join("in")
	users := f.crowd("u", 12)
	f.live(3*time.Second, append(users, "in")...)
	f.live(60 * time.Second) // gateways are down: workers tick, and nobody polls
	f.release("in", in.SlotID)
	f.live(5 * time.Second)
	require.Empty(t, f.set("active"), "nothing is admitted")
	require.Empty(t, f.set("parked"), "nobody is parked")
	require.Equal(t, users, f.set("queue"))

	f.live(time.Second, "u-7") // the visitor who returns first is not the first in the line
	require.Equal(t, []string{"u-0"}, f.set("active"))
	f.live(14*time.Second, "u-7")
	require.Empty(t, f.set("parked"), "every age counts from then")
}

// Ticks of an empty line, about one a minute, are no outage.
func TestTicksOfEmptyLineAreNoOutages(t *testing.T) {
	f := setup(t, 0)
	for range 10 {
		f.advance(time.Minute)
		f.tick()
	}
	users := f.crowd("u", 12)
	f.live(3*time.Second, users...)
	f.apply(line.Settings{Threshold: ptr(1)})
	f.live(60 * time.Second)
	require.Empty(t, f.set("parked"))
	require.Len(t, f.set("queue"), 11)
}

func TestMissingTicksParkNobody(t *testing.T) {
	f := setup(t, 1)
	in := f.join("in")
	users := f.crowd("u", 5)
	f.live(2*time.Second, append(users, "in")...)
	f.advance(time.Minute) // all workers were down
	f.release("in", in.SlotID)
	require.Equal(t, int64(1), f.tick().Admitted)
	require.Equal(t, []string{"u-0"}, f.set("active"))
	require.Empty(t, f.set("parked"))
}

func TestOutageKeepsUnclaimedSlots(t *testing.T) {
	f := setup(t, 1)
	in := f.join("in")
	users := f.crowd("u", 12)
	f.live(3*time.Second, append(users, "in")...)
	f.release("in", in.SlotID)
	f.tick()
	require.Equal(t, []string{"u-0"}, f.set("unclaimed"))
	f.live(60 * time.Second)
	f.live(14*time.Second, "u-7")
	o := f.status("u-0")
	require.Equal(t, line.Inside, o.State)
	require.True(t, o.Claimed)
}

func TestContactPreventsOutage(t *testing.T) {
	for name, who := range map[string]string{"a holder": "in", "a waiter": "u-11"} {
		t.Run(name, func(t *testing.T) {
			f := setup(t, 1)
			f.join("in")
			users := f.crowd("u", 12)
			f.live(3*time.Second, append(users, "in")...)
			f.live(20*time.Second, who)
			f.apply(line.Settings{Threshold: ptr(2)})
			f.live(time.Second, who)
			require.Contains(t, f.set("parked"), "u-0", "the others are absent")
		})
	}
}

func TestFewSilentWaitersAreNoOutage(t *testing.T) {
	f := setup(t, 1)
	in := f.join("in")
	users := f.crowd("u", 9)
	f.live(3*time.Second, append(users, "in")...)
	f.live(20 * time.Second)
	f.release("in", in.SlotID)
	f.tick()
	require.Equal(t, users, f.set("parked"), "nine visitors may be absent at the same time")
}

// A silence that is not longer than the poll intervals is no outage.
func TestOutageDependsOnPollIntervals(t *testing.T) {
	for name, tc := range map[string]struct {
		poll, quiet int
		silent      bool
	}{
		"8 s at the least":     {1, 8, false},
		"and not much longer":  {1, 9, true},
		"two polls and 5 s":    {10, 25, false},
		"and not longer again": {10, 26, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t, 0)
			users := f.crowd("u", 12)
			f.live(2*time.Second, users...)
			for _, u := range users {
				f.advised(u, tc.poll)
			}
			f.live(time.Duration(tc.quiet-1) * time.Second)
			f.advance(time.Second)
			f.apply(line.Settings{Threshold: ptr(1)})
			result := f.tick()
			require.Equal(t, tc.silent, result.Silent)
			require.Equal(t, !tc.silent, result.Admitted == 1)
		})
	}
}

// A crowd that leaves all at once does not keep its slots for ever.
func TestOutageCountsOnceInFiveMinutes(t *testing.T) {
	f := setup(t, 0)
	users := f.crowd("u", 12)
	f.live(2*time.Second, users...)
	f.live(10 * time.Second)
	require.True(t, f.tick().Silent)
	f.live(time.Second, users...)
	f.live(16 * time.Second)
	f.apply(line.Settings{Threshold: ptr(1)})
	require.Equal(t, line.AdmissionResult{Parked: 12}, f.tick())
}

func TestMissingTicksEndNoSlotForAbsence(t *testing.T) {
	f := setup(t, 1)
	f.join("in")
	f.live(2*time.Second, "in")
	f.advance(200 * time.Second)
	f.live(119 * time.Second)
	require.Equal(t, []string{"in"}, f.set("active"), "every age counts from the end of the outage")
	f.live(3 * time.Second)
	require.Empty(t, f.set("active"))
}
