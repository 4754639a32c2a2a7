package redis_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/redis/redistest"
	"urr.guru/services/queue/internal/line"
	"urr.guru/services/queue/internal/redis/admissiontest"
)

// When Redis has no memory left, the line refuses calls that it cannot store, and decides nothing.
// When there is memory again, all visitors have their former places and slots.
func TestFullRedisLosesNothing(t *testing.T) {
	s := redistest.StartServer(t, "--maxmemory", "4mb", "--maxmemory-policy", "noeviction")
	f := setupOn(t, s.Client(), "full")
	f.open()
	f.apply(line.Settings{Threshold: ptr(40)})
	var holders []string
	for i := range 40 { // their slots end one after another
		user := fmt.Sprintf("in-%02d", i)
		require.Equal(t, line.Inside, f.join(user).State)
		holders = append(holders, user)
		f.live(5*time.Second, holders...)
	}
	waiters := f.crowd("w", 3)
	f.live(390*time.Second, append(holders, waiters...)...)
	free := s.Fill()
	filledAt := f.clock()
	for range 30 { // 150 s, in which visitors poll in vain
		f.advance(5 * time.Second)
		var contacts []line.LastSeenUpdate
		for _, user := range holders {
			contacts = append(contacts, line.LastSeenUpdate{UserID: user, Holder: true, At: f.clock().UnixMilli()})
		}
		require.Error(t, f.store.UpdateLastSeen(f.ctx(), f.event, contacts))
		_, _, err := f.store.Check(f.ctx(), f.event, f.known, []line.PlaceClaim{{UserID: "new", Join: true}})
		require.ErrorIs(t, err, errs.ErrUnavailable)
		_, _, err = f.store.Check(f.ctx(), f.event, f.known, []line.PlaceClaim{{UserID: waiters[0]}})
		require.ErrorIs(t, err, errs.ErrUnavailable)
		_, _, err = f.store.Admit(f.ctx(), f.event, f.known)
		require.ErrorIs(t, err, errs.ErrUnavailable)
		_, _, err = f.store.Act(f.ctx(), f.event, f.known, line.SettingsChange{Paused: new(true)})
		require.ErrorIs(t, err, errs.ErrUnavailable)
		_, _, _, err = f.store.Clean(f.ctx(), f.event, f.known)
		require.NoError(t, err)
	}
	require.Equal(t, holders, f.set("active"))
	require.Equal(t, waiters, f.set("queue"))
	require.False(t, f.peek().Paused)

	free()
	ended := int(f.clock().Sub(filledAt).Seconds()-10)/5 + 1 // holders whose slots ended meanwhile
	f.tick()
	require.Equal(t, holders[ended:], f.set("active")[:len(holders)-ended], "nobody else's")
	require.Empty(t, f.set("parked"))
	f.poll(waiters...)
	f.live(time.Second, holders[ended:]...)
	for _, user := range waiters {
		require.Equal(t, line.Inside, f.status(user).State)
	}
	require.Empty(t, admissiontest.FindOvertaken(f.admissions()))
}
