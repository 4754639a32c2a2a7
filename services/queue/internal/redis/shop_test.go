package redis_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/services/queue/internal/line"
	"urr.guru/services/queue/internal/redis/admissiontest"
)

// onSale returns a line on sale with a slot holder. In live, each step has a new sale report.
func onSale(t *testing.T, threshold int64) (f *fixture, in line.ClaimOutcome) {
	t.Helper()
	f = setup(t, threshold)
	f.setSale(line.OnSale, f.clock().Add(-time.Hour))
	in = f.join("in")
	require.Equal(t, line.Inside, in.State)
	return f, in
}

// remaining returns the time until the end of a user's slot.
func (f *fixture) remaining(user string) time.Duration {
	f.t.Helper()
	o := f.status(user)
	require.Equal(f.t, line.Inside, o.State, user)
	return time.UnixMilli(o.End).Sub(f.clock())
}

// While the ticket service is away, nobody is admitted, since visitors could buy nothing.
func TestNobodyIsAdmittedWhileShopIsAway(t *testing.T) {
	f, _ := onSale(t, 5)
	f.away = true
	f.live(20*time.Second, "in")
	require.Equal(t, line.Inside, f.join("a").State, "not known to be away yet")
	f.live(time.Second, "in", "a")
	users := f.crowd("w", 2)
	f.live(15*time.Minute, append(users, "in", "a")...)
	require.Equal(t, users, f.set("queue"))
	st := f.peek()
	require.Equal(t, []line.PauseReason{line.PausedByShop}, st.Pauses())
	require.Equal(t, []string{"in", "a"}, f.set("active"))

	f.away = false
	f.live(2*time.Second, append(users, "in", "a")...)
	require.Empty(t, f.peek().Pauses())
	require.Len(t, f.set("active"), 4)
	require.Empty(t, admissiontest.FindOvertaken(f.admissions()))
}

// A promotion's line does not need the ticket service, since it does not lead to its shop.
func TestLineWithoutSaleDoesNotNeedTicket(t *testing.T) {
	f := setup(t, 2)
	f.setSale(line.NoSale, f.clock())
	f.join("in")
	f.away = true
	f.live(time.Minute, "in")
	require.Equal(t, line.Inside, f.join("a").State)
	f.live(10*time.Minute, "in", "a")
	require.Empty(t, f.set("active"), "slots end by their time")
}

// An outage of the ticket service, however long, shortens nobody's slot, even if it was about to
// end. Afterwards each holder has the time that was left at the last answer.
func TestSlotsStandWhileShopIsAway(t *testing.T) {
	for name, lose := range map[string]func(f *fixture){
		"":                              func(*fixture) {},
		"at a replica that has started": func(f *fixture) { at := f.known.Sale; f.forgetState(); f.known.Sale = at },
		"with a failover meanwhile":     (*fixture).failover,
	} {
		t.Run("an outage "+name, func(t *testing.T) {
			f, in := onSale(t, 2)
			f.live(595*time.Second, "in")
			late := f.join("late")
			require.Equal(t, 5*time.Second, f.remaining("in"))
			f.away = true
			f.live(10*time.Second, "in", "late")
			require.Positive(t, f.remaining("in"), "over, but ticket has not answered since")
			f.live(15*time.Minute, "in", "late")
			lose(f)
			f.live(time.Minute, "in", "late")
			require.Equal(t, 5*time.Second, f.remaining("in"))
			require.Equal(t, 600*time.Second, f.remaining("late"))
			require.Equal(t, line.Waiting, f.join("w").State, "never above the threshold")

			f.away = false
			f.ask()
			require.Equal(t, []string{in.SlotID, late.SlotID}, []string{f.status("in").SlotID, f.status("late").SlotID})
			require.Equal(t, 5*time.Second, f.remaining("in"))
			require.Equal(t, 600*time.Second, f.remaining("late"))
			f.live(4*time.Second, "in", "late", "w")
			require.Equal(t, []string{"in", "late"}, f.set("active"))
			f.live(time.Second, "in", "late", "w")
			require.Equal(t, []string{"late", "w"}, f.set("active"))
			f.live(595*time.Second, "late", "w")
			require.Equal(t, []string{"w"}, f.set("active"))
		})
	}
}

// Two outages add up. A slot that begins between them is extended only by the second one.
func TestOutagesOfTicketAddUp(t *testing.T) {
	f, _ := onSale(t, 2)
	outage := func(users ...string) {
		f.away = true
		f.live(5*time.Minute, users...)
		f.away = false
		f.live(time.Second, users...)
	}
	f.live(100*time.Second, "in")
	outage("in")
	require.Equal(t, 500*time.Second, f.remaining("in"))
	f.join("later")
	outage("in", "later")
	require.Equal(t, 500*time.Second, f.remaining("in"))
	require.Equal(t, 600*time.Second, f.remaining("later"))
	f.live(500*time.Second, "in", "later")
	require.Equal(t, []string{"later"}, f.set("active"))
}

// After an outage, a visitor who has not fetched the token, or has closed the page meanwhile, has
// the usual time to return.
func TestAgesOfHoldersRestartAfterOutageOfTicket(t *testing.T) {
	f, in := onSale(t, 2)
	f.join("gone")
	f.join("w")
	f.release("in", in.SlotID)
	f.live(time.Second, "gone") // the script claims its slot; the waiter's is unclaimed
	require.Equal(t, []string{"w"}, f.set("unclaimed"))
	f.away = true
	f.live(10 * time.Second)
	f.tick()
	f.live(10 * time.Minute)
	require.ElementsMatch(t, []string{"gone"}, f.set("active"), "a claim's time was over before ticket was known to be away")
	f.away = false
	f.live(119 * time.Second)
	require.Equal(t, []string{"gone"}, f.set("active"))
	f.live(3 * time.Second)
	require.Empty(t, f.set("active"))
}

// A sale report that one replica has read is used, whichever replica ticks the line.
func TestAnyReplicaHearsTicket(t *testing.T) {
	f, _ := onSale(t, 2)
	withoutReport := f.known
	for range 60 {
		f.advance(time.Second)
		f.ask()
		f.peek() // the replica that has the report
		withReport := f.known
		f.known = withoutReport
		f.tick()
		f.known = withReport
	}
	f.known = withoutReport
	require.Equal(t, line.Inside, f.join("a").State)
}

// A hold of seats made before an outage is noticed extends the slot as usual.
func TestHoldAfterOutageOfTicket(t *testing.T) {
	f, in := onSale(t, 1)
	f.away = true
	f.live(5*time.Minute, "in")
	f.away = false
	f.live(time.Second, "in")
	require.Equal(t, 600*time.Second, f.remaining("in"))
	require.True(t, f.hold("in", in.SlotID, f.clock().Add(15*time.Minute)))
	require.Equal(t, 15*time.Minute, f.remaining("in"))
	f.live(14*time.Minute, "in")
	require.Equal(t, time.Minute, f.remaining("in"))
	f.live(time.Minute, "in")
	require.Empty(t, f.set("active"))
}

// After a loss of all data an entry token restores its slot with the remaining time.
func TestTokenRestoresSlotWhileShopIsAway(t *testing.T) {
	f, in := onSale(t, 1)
	f.live(100*time.Second, "in")
	f.away = true
	f.live(5*time.Minute, "in")
	in.End = f.status("in").End
	token := f.entry(in)
	f.wipe()
	require.Equal(t, line.Inside, f.claim(line.PlaceClaim{UserID: "in", Entry: token}).State)
	require.Equal(t, 500*time.Second, f.remaining("in"))
	f.live(5*time.Minute, "in")
	f.away = false
	f.live(time.Second, "in")
	require.Equal(t, 500*time.Second, f.remaining("in"))
}
