package chaos_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/loop"
	"urr.guru/pkg/redis/redistest"
	"urr.guru/scripts/platform"
)

// lossSize is the size of lines whose Redis loses data.
type lossSize struct {
	waiting, threshold    int
	lateSlots             int           // slots that a raised threshold adds within the lost data
	backDuring, backAfter int           // absent at the loss, back during and after the recovery
	arrive, lostTime      time.Duration // lostTime: whose data a restart or failover loses
	leastStay, mostStay   time.Duration // time inside, after the recovery
	heartbeat             time.Duration
	recovery              time.Duration
	reserves              int
	// forgotten is the age of a used queue ticket from which a wipe cannot make it valid again; 0:
	// used tickets are not tried after a wipe.
	forgotten time.Duration
	// turnAge is the age of ended slots at the loss. The queue service cannot distinguish slots that
	// ended in the last 5 s before the last surviving decision from lost ones.
	turnAge time.Duration
	buys    bool
}

var (
	longLoss = lossSize{
		waiting: 2000, threshold: 200, lateSlots: 20, backDuring: 300, backAfter: 50, arrive: 20 * time.Second, lostTime: 5 * time.Second,
		leastStay: 3 * time.Second, mostStay: 7 * time.Second, heartbeat: pageHeartbeat, recovery: 30 * time.Second, reserves: 20,
		forgotten: 155 * time.Second, turnAge: 6 * time.Second, buys: true,
	}
	shortLoss = lossSize{
		waiting: 40, threshold: 12, lateSlots: 3, backDuring: 5, backAfter: 2, arrive: 500 * time.Millisecond, lostTime: time.Second,
		leastStay: 100 * time.Millisecond, mostStay: 300 * time.Millisecond, heartbeat: 500 * time.Millisecond, recovery: 3 * time.Second, reserves: 5,
	}
)

// loss is one way in which Redis loses data.
type loss struct {
	name string
	// remember marks the state to which Redis will fall back; nil: all data is lost.
	remember func()
	inject   func()
}

// TestLineSurvivesLossOfRedis loses data of a full line in three ways, or in its short form in one,
// which the seed decides. Returning visitors have their old places, slots keep their time, and old
// queue tickets gain nothing.
func TestLineSurvivesLossOfRedis(t *testing.T) {
	parallelIfShort(t)
	seed, rng := seededRandom(t)
	size, services := shortLoss, []string(nil)
	if *full {
		size, services = longLoss, []string{platform.Payment, platform.Sandbox}
	}
	l := setupLine(t, rng, services, fmt.Sprintf("QUEUE_RECOVERY_PAUSE_SECONDS=%d", int(size.recovery.Seconds())))
	ways := []loss{l.wipe(), l.cutLog(), l.failover()}
	if !*full {
		ways = ways[seed%3 : seed%3+1]
	}
	for i, way := range ways {
		l.event = fmt.Sprintf("loss-%d-%d", seed, i)
		l.survive(way, size)
	}
}

func (l *lineRun) wipe() loss {
	return loss{name: "FLUSHALL", inject: func() { require.NoError(l.t, l.store.FlushAll(l.t.Context()).Err()) }}
}

// cutLog restarts Redis with an append-only file that is truncated to its remembered size.
func (l *lineRun) cutLog() loss {
	var size int64
	return loss{
		name: "restart behind the log",
		remember: func() {
			info, err := os.Stat(l.server.AppendLog())
			require.NoError(l.t, err)
			size = info.Size()
		},
		inject: func() {
			l.server.Kill()
			require.NoError(l.t, os.Truncate(l.server.AppendLog(), size))
			l.server.Start()
		},
	}
}

// failover lets a Redis replica take over whose replication was stopped.
func (l *lineRun) failover() loss {
	var replica *redistest.Server
	return loss{
		name: "failover to a stale replica",
		remember: func() {
			replica = l.server.StartReplica()
			replica.Detach()
		},
		inject: func() {
			l.server.Kill()
			replica.TakeOver(l.server)
		},
	}
}

// survive loses data of a new line and requires that the line then continues as before.
func (l *lineRun) survive(way loss, size lossSize) {
	l.t.Helper()
	began := time.Now()
	l.open(l.event, 0)
	c := l.newCrowd(func() time.Duration { return time.Hour })
	c.heartbeat = size.heartbeat
	p := l.probe(c, size.reserves)
	users := l.newTicketUsers(size, way.remember == nil)
	all := size.threshold + size.waiting
	c.arrive(all, size.arrive)
	c.await(waits, all)
	users.waiter.check(l, "")
	initialSlots := size.threshold - size.lateSlots
	l.setThreshold(initialSlots)
	users.useSlots(l)
	c.await(inside, initialSlots)
	if way.remember == nil {
		loop.Sleep(l.t.Context(), size.forgotten-time.Since(users.issued))
	}
	loop.Sleep(l.t.Context(), size.turnAge)
	c.dismiss(1, time.Millisecond) // a decision about a slot
	c.await(gone, 1)
	c.await(inside, initialSlots)

	absent := c.pick(waits, size.backDuring+size.backAfter)
	c.leave(absent)
	users.waiter.refresh(l)
	if way.remember != nil {
		way.remember()
	}
	l.setThreshold(size.threshold)
	loop.Sleep(l.t.Context(), size.lostTime)
	c.await(inside, size.threshold)
	before, epoch, lostAt := l.lose(p, way)

	c.comeBack(absent[:size.backDuring], max(size.recovery/2, time.Second))
	l.awaitRecovery(epoch)
	users.tryAll(l, before, lostAt)
	l.awaitEnd()
	c.comeBack(absent[size.backDuring:], time.Second)
	c.setStay(l.between(size.leastStay, size.mostStay))
	c.dismiss(all, size.mostStay)
	c.await(gone, all)
	l.t.Logf("%s: %d waited, %d came back during the recovery and %d after it: %v", way.name, len(before), size.backDuring, size.backAfter,
		time.Since(began).Round(time.Second))
	p.requireFound(size.threshold - size.lateSlots)
	c.requireNoProblem()
	l.requireOldOrder(c, before, lostAt)
}

// lose loses the data. It returns the scores of all who waited, the ended epoch, and the time.
func (l *lineRun) lose(p *prober, way loss) (before map[string]int64, epoch int64, at time.Time) {
	l.t.Helper()
	before, parked := l.places()
	for user, score := range parked {
		before[user] = score
	}
	epoch = l.epoch()
	at = time.Now()
	p.lose(way.inject)
	return before, epoch, at
}

func (l *lineRun) epoch() int64 {
	l.t.Helper()
	n, err := l.store.HGet(l.t.Context(), l.key("line"), "epoch").Int64()
	require.NoError(l.t, err)
	return n
}

// awaitRecovery waits until the queue service has begun a new epoch of the line after a loss.
func (l *lineRun) awaitRecovery(ended int64) {
	l.t.Helper()
	l.Eventually(func(ctx context.Context) error {
		epoch, err := l.store.HGet(ctx, l.key("line"), "epoch").Int64()
		if err == nil && epoch <= ended {
			err = fmt.Errorf("the epoch is %d", epoch)
		}
		return err
	})
}

// awaitEnd waits for the end of the recovery, by Redis's clock, which is that of this machine.
func (l *lineRun) awaitEnd() {
	l.t.Helper()
	until, err := l.store.HGet(l.t.Context(), l.key("line"), "until").Int64()
	require.NoError(l.t, err)
	loop.Sleep(l.t.Context(), time.Until(time.UnixMilli(until)))
}

// requireOldOrder requires that all waiting users were admitted with old scores in the old order.
func (l *lineRun) requireOldOrder(c *lineCrowd, before map[string]int64, lostAt time.Time) {
	l.t.Helper()
	admitted := map[string]bool{}
	for _, a := range l.requireOrder() {
		if old, waited := before[a.User]; waited && a.At >= lostAt.UnixMilli() && !admitted[a.User] {
			admitted[a.User] = true
			require.Equal(l.t, old, a.Score, "%s was admitted with another place than before", a.User)
		}
	}
	for _, v := range c.all {
		if before[v.user] > 0 {
			require.True(l.t, admitted[v.user], "%s waited and was not admitted", v.user)
		}
	}
	l.t.Logf("%d who waited were admitted with their old places", len(admitted))
}

// place returns a user's score in the line; 0: the user has no place.
func (l *lineRun) place(user string) int64 {
	l.t.Helper()
	for _, set := range []string{"queue", "parked"} {
		score, err := l.store.ZScore(l.t.Context(), l.key(set), user).Result()
		if err == nil {
			return int64(score)
		}
		require.ErrorIs(l.t, err, redis.Nil)
	}
	return 0
}
