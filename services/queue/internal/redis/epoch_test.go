package redis_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/services/queue/internal/line"
)

func TestTicketsRestorePlacesAfterWipe(t *testing.T) {
	f := setup(t, 0)
	places := map[string]line.ClaimOutcome{}
	for i := range 5 {
		f.advance(time.Millisecond)
		u := fmt.Sprintf("u-%d", i)
		places[u] = f.join(u)
	}
	tickets := map[string]*line.Ticket{}
	for u, o := range places {
		tickets[u] = f.ticket(o)
	}
	before := f.known
	f.advance(10 * time.Second)
	f.wipe()

	// The visitors return in another order, and after a new visitor.
	f.join("new")
	require.Greater(t, f.known.Epoch, before.Epoch)
	for _, u := range []string{"u-3", "u-0", "u-4", "u-1", "u-2"} {
		o := f.claim(line.PlaceClaim{UserID: u, Ticket: tickets[u]})
		require.Equal(t, line.Waiting, o.State, "status restores it too")
		require.Equal(t, places[u].Score, o.Score)
	}
	require.Equal(t, []string{"u-0", "u-1", "u-2", "u-3", "u-4", "new"}, f.set("queue"))

	require.True(t, f.release("u-0", ""))
	require.Equal(t, line.NotInLine, f.claim(line.PlaceClaim{UserID: "u-0", Ticket: tickets["u-0"]}).State, "once per user and epoch")
	st := f.peek()
	require.Equal(t, before.Threshold, st.Threshold, "the replica has cached the settings")
	require.Equal(t, f.clock().Add(30*time.Second).UnixMilli(), st.PauseUntil)
}

func TestTicketsFromLongBeforeLossAreRejected(t *testing.T) {
	f := setup(t, 0)
	o := f.join("a")
	ticket := f.ticket(o)
	f.release("a", "")
	f.live(149*time.Second, "nobody")
	f.wipe()
	require.Equal(t, line.Waiting, f.claim(line.PlaceClaim{UserID: "a", Ticket: ticket}).State, "149 s before the last answer")

	g := f.ticket(f.join("b"))
	f.release("b", "")
	f.live(152*time.Second, "nobody")
	f.wipe()
	require.Equal(t, line.NotInLine, f.claim(line.PlaceClaim{UserID: "b", Ticket: g}).State, "152 s before it")
}

func TestTicketsOfCurrentEpochRestoreNothing(t *testing.T) {
	f := setup(t, 0)
	ticket := f.ticket(f.join("a"))
	f.release("a", "")
	require.Equal(t, line.NotInLine, f.claim(line.PlaceClaim{UserID: "a", Ticket: ticket}).State)
}

func TestTicketsAreValidForAnHour(t *testing.T) {
	f := setup(t, 0)
	a, b := f.ticket(f.join("a")), f.ticket(f.join("b"))
	f.advance(time.Second)
	f.peek()
	f.wipe()
	f.peek()
	f.advance(3599 * time.Second)
	require.Equal(t, line.Waiting, f.claim(line.PlaceClaim{UserID: "a", Ticket: a}).State)
	f.advance(2 * time.Second)
	require.Equal(t, line.NotInLine, f.claim(line.PlaceClaim{UserID: "b", Ticket: b}).State)
}

func TestLossUnknownToReplicas(t *testing.T) {
	f := setup(t, 0)
	ticket := f.ticket(f.join("a"))
	f.advance(50 * time.Minute)
	f.wipe()
	f.known = line.KnownState{}
	require.Equal(t, line.Waiting, f.claim(line.PlaceClaim{UserID: "a", Ticket: ticket}).State, "an hour's tickets count")
	st := f.peek()
	require.Zero(t, st.SettingsAt, "the settings have to be read first")
	require.False(t, st.Admitting())
	f.live(31*time.Second, "a")
	require.Equal(t, []string{"a"}, f.set("queue"))
	f.apply(line.Settings{})
	f.live(time.Second, "a")
	require.Equal(t, []string{"a"}, f.set("active"))
}

func TestReplicaWithLaterStateNarrowsTickets(t *testing.T) {
	f := setup(t, 0)
	f.join("a")
	f.release("a", "")
	old := f.ticket(line.ClaimOutcome{Score: f.clock().UnixMicro()})
	f.live(10 * time.Minute)
	f.wipe()
	remembers := f.known
	f.known = line.KnownState{}
	f.open() // a replica that knows nothing takes the line for a new one
	require.False(t, f.peek().Recovering())
	f.known = remembers
	require.True(t, f.peek().Recovering(), "another replica has later state")
	require.Equal(t, line.NotInLine, f.claim(line.PlaceClaim{UserID: "a", Ticket: old}).State)
	require.Equal(t, remembers.Threshold, f.peek().Threshold)
}

func TestRestartWithOlderData(t *testing.T) {
	f := setup(t, 3)
	early := f.join("early")
	released := f.join("released")
	f.advance(10 * time.Second)
	f.poll("early")
	restore := f.snapshot()
	f.advance(4 * time.Second)
	late := f.join("late")
	lateToken, releasedToken := f.entry(late), f.entry(released)
	f.release("released", released.SlotID)
	epoch := f.known.Epoch
	restore() // the changes of the last 4 s are lost
	f.advance(time.Second)

	f.join("w")
	require.Greater(t, f.known.Epoch, epoch, "a rev below what the replica remembers")
	require.Equal(t, early.SlotID, f.status("early").SlotID)
	back := f.claim(line.PlaceClaim{UserID: "late", Entry: lateToken})
	require.Equal(t, late.SlotID, back.SlotID, "admitted after the last surviving write")
	require.Equal(t, released.SlotID, f.claim(line.PlaceClaim{UserID: "released", Entry: releasedToken}).SlotID, "the end of the turn was lost: one more turn")
	require.Equal(t, int64(3), f.peek().Active)
}

func TestTicketsFromBeforeSurvivingDataAreRejected(t *testing.T) {
	f := setup(t, 0)
	ticket := f.ticket(f.join("left"))
	f.release("left", "")
	f.advance(20 * time.Second)
	f.join("a")
	restore := f.snapshot()
	f.advance(time.Second)
	lost := f.join("lost")
	lostTicket := f.ticket(lost)
	restore()
	f.peek()
	require.Equal(t, line.NotInLine, f.claim(line.PlaceClaim{UserID: "left", Ticket: ticket}).State, "the surviving data has the end of the turn")
	require.Equal(t, lost.Score, f.claim(line.PlaceClaim{UserID: "lost", Ticket: lostTicket}).Score)
}

func TestTicketsOfUnknownEpoch(t *testing.T) {
	f := setup(t, 0)
	f.join("a")
	restore := f.snapshot()
	f.advance(time.Second)
	f.failover()
	f.peek() // the restored data will not have this second epoch
	o := f.join("b")
	ticket := f.ticket(o)
	restore()
	f.advance(time.Second)
	require.Equal(t, o.Score, f.claim(line.PlaceClaim{UserID: "b", Ticket: ticket}).Score)
}

func TestOnlyLostLinesPause(t *testing.T) {
	f := unopened(t)
	require.False(t, f.open().Recovering())
	f.apply(line.Settings{})
	require.Equal(t, line.Inside, f.join("a").State)
	epoch := f.peek().Epoch
	require.Equal(t, epoch, f.open().Epoch, "opening again changes nothing")
	f.wipe()
	require.True(t, f.open().Recovering(), "this replica has cached the line")

	g := otherLine(t, f)
	require.Equal(t, line.Waiting, g.join("a").State)
	require.True(t, g.peek().Recovering(), "nobody opened it")
}

// Two replicas create a line. The one that may not open it may be first.
func TestOpenEndsRecoveryOfUnusedLine(t *testing.T) {
	f := unopened(t)
	require.Equal(t, line.Waiting, f.join("a").State)
	f.apply(line.Settings{})
	other := *f
	other.known = line.KnownState{}
	require.False(t, other.open().Recovering())
	f.advance(time.Second)
	f.tick()
	require.Equal(t, line.Inside, f.status("a").State)
	require.Equal(t, f.known.Epoch, other.peek().Epoch)
}

// Opening does not shorten a recovery in which visitors have a place to restore, or may have one.
func TestOpenKeepsRecoveryOfUsedLine(t *testing.T) {
	for name, use := range map[string]func(f *fixture){
		"a replica remembers the line before": func(f *fixture) {
			f.join("a")
			f.wipe()
			f.peek()
		},
		"a token of a lost epoch was redeemed": func(f *fixture) {
			f.open()
			f.apply(line.Settings{})
			held := f.join("a")
			entry := f.entry(held)
			f.advance(time.Second)
			f.wipe()
			f.known = line.KnownState{}
			require.Equal(f.t, line.Inside, f.claim(line.PlaceClaim{UserID: "a", Entry: entry}).State)
		},
		"somebody was admitted, and the data is another server's": func(f *fixture) {
			f.open()
			f.apply(line.Settings{})
			f.join("a")
			f.failover()
			f.known = line.KnownState{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := unopened(t)
			use(f)
			require.True(t, f.open().Recovering())
			f.known = line.KnownState{}
			require.True(t, f.open().Recovering(), "whoever asks")
		})
	}
}

func TestPausedSurvivesLoss(t *testing.T) {
	f := setup(t, 5)
	f.advance(time.Second)
	f.apply(line.Settings{Paused: true, Slot: time.Minute, ClosesAt: f.clock().Add(time.Hour)})
	want := f.peek()
	f.wipe()
	got := f.peek()
	require.True(t, got.Paused)
	require.Equal(t, []int64{want.SlotMS, want.ClosesAt}, []int64{got.SlotMS, got.ClosesAt})
}

func TestEpochsIncreaseAfterClockWentBack(t *testing.T) {
	f := setup(t, 1)
	f.join("a")
	first := f.peek().Epoch
	f.advance(-time.Hour) // the new server's clock
	f.failover()
	f.known = line.KnownState{}
	second := f.peek().Epoch
	require.Greater(t, second, first, "than what is stored")
	f.advance(-time.Hour)
	f.wipe()
	require.Greater(t, f.peek().Epoch, second, "than what is remembered")
}

// If Redis has lost the last change of the settings, a replica that has cached it restores it.
func TestReplicaRestoresLaterSettings(t *testing.T) {
	f := setup(t, 5)
	f.join("a")
	restore := f.snapshot()
	f.advance(time.Second)
	f.apply(line.Settings{Threshold: ptr(1), Paused: true})
	restore()
	st := f.peek()
	require.Equal(t, int64(1), st.Threshold)
	require.True(t, st.Paused)
}

// Settings read after a failover do not count as older, even if the new server's clock is behind.
func TestSettingsAreReadAgainAfterClockWentBack(t *testing.T) {
	f := setup(t, 5)
	f.advance(-time.Hour)
	f.wipe()
	f.peek()
	f.apply(line.Settings{Threshold: ptr(3)})
	require.Equal(t, int64(3), f.peek().Threshold)
}

func TestOldTicketBoundsAreRemoved(t *testing.T) {
	f := setup(t, 0)
	f.join("a")
	bounds := func() (n int) {
		fields, err := f.client.HKeys(f.ctx(), f.key("line")).Result()
		require.NoError(t, err)
		for _, name := range fields {
			if strings.HasPrefix(name, "b:") {
				n++
			}
		}
		return n
	}
	lose := func() {
		f.advance(20 * time.Hour)
		f.failover()
		f.peek()
	}
	lose()
	lose()
	require.Equal(t, 2, bounds())
	lose()
	require.Equal(t, 2, bounds(), "two days are long enough for any ticket")
}

// A replica with an old state does not prolong a recovery that has begun already.
func TestOutdatedReplicaDoesNotProlongRecovery(t *testing.T) {
	f := setup(t, 1)
	behind := f.known
	f.advance(time.Second)
	f.failover()
	until := f.peek().PauseUntil
	f.advance(10 * time.Second)
	f.known = behind
	require.Equal(t, until, f.peek().PauseUntil)
}

// Which tickets are valid depends on the replica that had the line's latest answer.
func TestLatestAnswerBoundsTickets(t *testing.T) {
	f := setup(t, 0)
	ticket := f.ticket(f.join("a"))
	f.release("a", "")
	early := f.known
	f.live(200*time.Second, "nobody")
	f.wipe()
	f.peek()
	f.known = early
	f.peek()
	require.Equal(t, line.NotInLine, f.claim(line.PlaceClaim{UserID: "a", Ticket: ticket}).State, "200 s before the last answer")
}

// Answers of the old server may arrive after the new one has begun its epoch. They do not show what
// the new one has lost.
func TestAnswersOfReplacedServerAreIgnored(t *testing.T) {
	f := setup(t, 0)
	ticket := f.ticket(f.join("a"))
	misled := f.known
	f.advance(time.Second)
	f.wipe()
	f.peek()
	f.advance(300 * time.Second)
	misled.AnsweredAt = f.clock().UnixMilli()
	f.known = misled
	require.Equal(t, line.Waiting, f.claim(line.PlaceClaim{UserID: "a", Ticket: ticket}).State)
}

func TestAgesRestartAfterLoss(t *testing.T) {
	f := setup(t, 0)
	f.join("far")
	f.live(2*time.Second, "far")
	f.advance(10 * time.Second)
	f.tick() // an outage; another one within 300 s does not count as an outage
	f.advised("far", 60)
	f.advance(130 * time.Second)
	f.failover()
	f.peek()
	f.live(31 * time.Second)
	f.apply(line.Settings{Threshold: ptr(1)})
	f.live(time.Second)
	require.Equal(t, []string{"far"}, f.set("active"))
}

// If no decision was made for long before the loss, the time of the line's last answer decides
// which tickets are valid.
func TestTicketsFromLongBeforeFailoverAreRejected(t *testing.T) {
	f := setup(t, 0)
	ticket := f.ticket(f.join("a"))
	f.release("a", "")
	f.live(200*time.Second, "nobody")
	f.failover()
	require.Equal(t, line.NotInLine, f.claim(line.PlaceClaim{UserID: "a", Ticket: ticket}).State)
}
