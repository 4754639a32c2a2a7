package redis_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/services/queue/internal/line"
)

// waitBehindIn makes a user wait behind "in". It returns the slot of "in" and the user's ticket.
func (f *fixture) waitBehindIn(user string) (in line.ClaimOutcome, ticket *line.Ticket) {
	f.t.Helper()
	in = f.join("in")
	ticket = f.ticket(f.join(user))
	f.live(time.Second, "in", user)
	return in, ticket
}

// If a failover has kept the data, no ticket is needed. A ticket must not restore a place that was
// used.
func TestTicketGivesNoSecondTurn(t *testing.T) {
	for name, turn := range map[string]func(f *fixture, in line.ClaimOutcome){
		"admitted and bought": func(f *fixture, in line.ClaimOutcome) {
			f.release("in", in.SlotID)
			f.live(time.Second, "a")
			require.True(f.t, f.release("a", f.status("a").SlotID))
		},
		"admitted, and the slot expired": func(f *fixture, in line.ClaimOutcome) {
			f.release("in", in.SlotID)
			f.liveBy(10*time.Second, 620*time.Second, "a")
		},
		"admitted by a tick and never claimed": func(f *fixture, in line.ClaimOutcome) {
			f.release("in", in.SlotID)
			f.tick()
			f.live(20 * time.Second)
			require.Equal(f.t, []string{"a"}, f.set("parked"))
			require.True(f.t, f.release("a", ""))
		},
		"left the line": func(f *fixture, _ line.ClaimOutcome) { require.True(f.t, f.release("a", "")) },
		"left while parked": func(f *fixture, in line.ClaimOutcome) {
			f.live(20*time.Second, "in")
			f.release("in", in.SlotID)
			f.tick()
			require.True(f.t, f.release("a", ""))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t, 1)
			in, ticket := f.waitBehindIn("a")
			f.failover()
			require.Equal(t, line.Waiting, f.claim(line.PlaceClaim{UserID: "a", Ticket: ticket}).State, "found in the queue")
			f.live(31*time.Second, "in", "a")
			turn(f, in)
			got := f.claim(line.PlaceClaim{UserID: "a", Ticket: ticket})
			require.Equal(t, line.NotInLine, got.State, "the ticket's place has been used")
			later := f.claim(line.PlaceClaim{UserID: "a", Ticket: ticket, Join: true})
			require.NotEqual(t, ticket.Score, later.Score, "who wants more queues again")
		})
	}
}

// A replica may issue a ticket after an admission of which it does not know yet.
func TestTicketIssuedAfterAdmissionIsRejected(t *testing.T) {
	for name, tc := range map[string]struct {
		after time.Duration
		want  line.VisitorState
	}{
		"5 s after the leave": {5 * time.Second, line.NotInLine},
		"more than 5 s":       {5*time.Second + time.Millisecond, line.Waiting},
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t, 0)
			f.join("a")
			f.release("a", "")
			place := f.join("a")
			f.advance(tc.after)
			f.join("b")
			ticket := f.ticket(place)
			// These writes are lost, as if made in the last second before the failover.
			require.NoError(t, f.client.ZRem(f.ctx(), f.key("queue"), "a").Err())
			require.NoError(t, f.client.ZRem(f.ctx(), f.key("seen"), "a").Err())
			f.advance(time.Second)
			f.failover()
			require.Equal(t, tc.want, f.claim(line.PlaceClaim{UserID: "a", Ticket: ticket}).State)
		})
	}
}

// A place is restored only once, whichever of the user's tickets is presented.
func TestPlaceIsRestoredOnce(t *testing.T) {
	f := setup(t, 0)
	first := f.ticket(f.join("a"))
	f.advance(time.Second)
	f.failover()
	f.peek()
	second := f.ticket(f.status("a"))
	f.advance(time.Second)
	f.wipe()
	require.Equal(t, line.Waiting, f.claim(line.PlaceClaim{UserID: "a", Ticket: second}).State)
	require.True(t, f.release("a", ""))
	require.Equal(t, line.NotInLine, f.claim(line.PlaceClaim{UserID: "a", Ticket: first}).State)
	require.Equal(t, line.NotInLine, f.claim(line.PlaceClaim{UserID: "a", Ticket: second}).State)
}

// A slot restored by its entry token counts as a turn.
func TestTicketAfterAdoptionIsRejected(t *testing.T) {
	f := setup(t, 1)
	in, ticket := f.waitBehindIn("a")
	f.release("in", in.SlotID)
	f.tick()
	token := f.entry(f.status("a"))
	f.wipe()
	require.Equal(t, line.Inside, f.claim(line.PlaceClaim{UserID: "a", Entry: token}).State)
	require.True(t, f.release("a", token.SlotID))
	require.Equal(t, line.NotInLine, f.claim(line.PlaceClaim{UserID: "a", Ticket: ticket}).State)
}

// Tickets of an epoch expire an hour after that epoch has ended, not after the latest one has.
func TestLaterLossRestoresNoOlderTickets(t *testing.T) {
	for name, lose := range map[string]func(f *fixture){"failover": (*fixture).failover, "wipe": (*fixture).wipe} {
		t.Run(name, func(t *testing.T) {
			f := setup(t, 0)
			ticket := f.ticket(f.join("a"))
			f.failover()
			f.peek()
			require.NoError(t, f.client.ZRem(f.ctx(), f.key("queue"), "a").Err())
			f.advance(50 * time.Minute)
			f.peek()
			lose(f)
			f.peek()
			f.advance(11 * time.Minute)
			require.Equal(t, line.NotInLine, f.claim(line.PlaceClaim{UserID: "a", Ticket: ticket}).State)
		})
	}
}

func TestSpentIsCleanedInPages(t *testing.T) {
	f := setup(t, 2000)
	users := f.joinAll("u", 1002)
	f.advance(time.Second)
	f.tick()
	require.Len(t, f.set("spent"), len(users))
	claims := make([]line.PlaceClaim, len(users))
	for i, u := range users {
		claims[i].UserID = u
	}
	s, inside, err := f.store.Check(f.ctx(), f.event, f.known, claims)
	f.observe(s, err)
	for i, u := range users {
		require.True(t, f.release(u, inside[i].SlotID))
	}
	f.advance(3750 * time.Second)
	f.join("late")
	clean := func() bool {
		_, _, more, err := f.store.Clean(f.ctx(), f.event, f.known)
		require.NoError(t, err)
		return more
	}
	require.True(t, clean())
	require.Len(t, f.set("spent"), 3)
	require.False(t, clean())
	require.Equal(t, []string{"late"}, f.set("spent"))
	ttl, err := f.client.PTTL(f.ctx(), f.key("spent")).Result()
	require.NoError(t, err)
	require.InDelta(t, float64(3750*time.Second), float64(ttl), float64(10*time.Minute))
}
