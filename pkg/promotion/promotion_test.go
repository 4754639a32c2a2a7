package promotion_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/plan"
	"urr.guru/pkg/promotion"
)

const (
	now = int64(1_800_000_000_123)
	day = int64(24 * 3600 * 1000)
	id  = "018f2b5e-7b1a-7c3d-8e4f-0123456789ab"
)

func request() promotion.Request {
	return promotion.NewRequest(&promotion.Promotion{EventID: "demo", EventType: promotion.FirstCome, ClosesAt: now + day, Shards: 1}, id, "ann", now)
}

// statusPath returns the statuses in a change's log, or says what is wrong with it.
func statusPath(c promotion.Change) string {
	var steps []string
	last := c.Before.StatusAt
	for _, l := range c.Logs {
		steps = append(steps, string(l.To))
		if l.OccurredAt <= last {
			return "out of order"
		}
		last = l.OccurredAt
	}
	if c.After.StatusAt != last {
		return "the status has another time than its log"
	}
	return strings.Join(steps, " ")
}

func TestStatusMachine(t *testing.T) {
	t.Parallel()
	received := request()
	queued := received.Queued(now + 10).After
	attempted := queued.Attempted(now+20, promotion.Failure{Class: promotion.Retryable, Code: "X"})
	failed := attempted.After.Failed(now+30, promotion.FailedWorker, promotion.Failure{Class: promotion.Retryable, Code: "Z"})
	settle := func(r promotion.Request, now int64) promotion.Change {
		return r.Settled(now, promotion.Succeeded, promotion.Success, promotion.Turn{SequenceNumber: "7", Member: 3, SentAt: now + 1})
	}
	for name, tc := range map[string]struct {
		change promotion.Change
		want   string
	}{
		"queued":                      {received.Queued(now), "QUEUED"},
		"queued by a clock behind":    {received.Queued(now - 5000), "QUEUED"},
		"settled":                     {settle(queued, now), "PROCESSING SUCCEEDED"},
		"settled by a clock behind":   {settle(queued, 0), "PROCESSING SUCCEEDED"},
		"settled before it is queued": {settle(received, now), "QUEUED PROCESSING SUCCEEDED"},
		"attempted":                   {attempted, "PROCESSING"},
		"attempted again":             {attempted.After.Attempted(now, promotion.Failure{}), ""},
		"settled after an attempt":    {settle(attempted.After, now), "SUCCEEDED"},
		"rejected early":              {received.Ended(now, promotion.Rejected, promotion.RejectedCapacity), "REJECTED"},
		"failed":                      {failed, "FAILED_FINAL"},
		"redriven":                    {failed.After.Redriven(now), "QUEUED"},
		"requeued":                    {attempted.After.Requeued(), ""},
	} {
		require.Equal(t, tc.want, statusPath(tc.change), name)
	}
	done := settle(attempted.After, now).After
	require.Empty(t, done.ErrorCode, "what an attempt left is gone")
	require.Equal(t, strings.Repeat("0", 38)+"7.03", done.QueueSeq)
	require.NotZero(t, done.FinishedAt)
	require.Equal(t, "Z", failed.After.ErrorCode)
	for name, c := range map[string]promotion.Change{
		"received": settle(received, now), "queued": settle(queued, now+50), "attempted": settle(attempted.After, now+50), "by a clock behind": settle(queued, 0),
	} {
		log, ok := c.After.SettledLog()
		require.True(t, ok, name)
		require.Equal(t, c.Logs, log[len(log)-len(c.Logs):], "%s: the log follows from the times", name)
	}
	require.Equal(t, now+1, settle(received, now).After.QueuedAt, "when the queue took it")
	for name, r := range map[string]promotion.Request{
		"failed": failed.After, "redriven": settle(failed.After.Redriven(now).After, now).After, "pending": queued,
		"never processed": received.Ended(now, promotion.Rejected, promotion.RejectedCapacity).After,
	} {
		_, ok := r.SettledLog()
		require.False(t, ok, name)
	}
	again := failed.After.Redriven(now).After
	require.Equal(t, int64(1), again.Gen)
	require.Zero(t, again.Attempts)
	require.Empty(t, again.ResultCode)
	require.Empty(t, again.ErrorCode)
	require.Zero(t, again.FinishedAt)
	require.Equal(t, queued.QueuedAt, again.QueuedAt, "its place in the lists stays")

	long := received.Failed(now, promotion.FailedWorker, promotion.Failure{Message: strings.Repeat("한", 100)}).After.ErrorMessage
	require.LessOrEqual(t, len(long), 256)
	require.Equal(t, strings.Repeat("한", 85), long, "cut between characters")
}

func TestWhatPagesShow(t *testing.T) {
	t.Parallel()
	for status, want := range map[promotion.Status]promotion.UIResult{
		promotion.Received: promotion.UIPending, promotion.Queued: promotion.UIPending, promotion.Processing: promotion.UIPending,
		promotion.Succeeded: promotion.UISuccess, promotion.Rejected: promotion.UIRejected, promotion.FailedFinal: promotion.UIFailed,
	} {
		require.Equal(t, want, status.UIResult())
	}
	first := request()
	require.Empty(t, first.UIPhase(now))
	lottery := promotion.Request{EventType: promotion.Lottery, LotteryCutoffAt: 100, AnnouncedAt: 200, Status: promotion.Rejected}
	for at, want := range map[int64]promotion.UIPhase{
		99: promotion.Collecting, 100: promotion.Drawing, 199: promotion.Drawing, 200: promotion.Announced,
	} {
		require.Equal(t, want, lottery.UIPhase(at), at)
	}
	lottery.Status = promotion.Processing
	require.Equal(t, promotion.Drawing, lottery.UIPhase(200), "its result is not out")
	lottery.Status, lottery.ResultCode = promotion.Rejected, promotion.RejectedVoid
	require.Empty(t, lottery.UIPhase(200), "cancelled: nothing is announced")
}

func TestStatusOfAPromotion(t *testing.T) {
	t.Parallel()
	p := promotion.Promotion{OpensAt: 100, ClosesAt: 200}
	lottery := promotion.Promotion{OpensAt: 100, ClosesAt: 200, LotteryCutoffAt: 200, AnnouncedAt: 300, PublishedAt: 299}
	overdue := lottery
	overdue.PublishedAt = 0
	closed := p
	closed.ClosedAt = 150
	void := p
	void.VoidedAt = 1
	paused := p
	paused.Paused = true
	for _, tc := range []struct {
		p       promotion.Promotion
		at      int64
		want    promotion.PromotionStatus
		accepts bool
	}{
		{p, 99, promotion.PromotionScheduled, false},
		{p, 100, promotion.PromotionOpen, true},
		{p, 199, promotion.PromotionOpen, true},
		{p, 200, promotion.PromotionClosed, false},
		{lottery, 299, promotion.PromotionClosed, false},
		{lottery, 300, promotion.PromotionAnnounced, false},
		{overdue, 300, promotion.PromotionClosed, false},
		{closed, 149, promotion.PromotionOpen, true},
		{closed, 150, promotion.PromotionClosed, false},
		{void, 150, promotion.PromotionVoid, false},
		{paused, 150, promotion.PromotionOpen, false},
	} {
		require.Equal(t, tc.want, tc.p.Status(tc.at))
		require.Equal(t, tc.accepts, tc.p.Accepts(tc.at))
	}
}

func TestMessages(t *testing.T) {
	t.Parallel()
	r := request()
	m := promotion.MessageOf(&r)
	other := promotion.Message{RequestID: uuid.NewString(), EventID: "demo", UserID: "bob", EventType: promotion.FirstCome, Gen: 1}
	for _, want := range [][]promotion.Message{{m}, {m, other}} {
		got, err := promotion.DecodeBody(promotion.Body(want...))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	require.Equal(t, "demo", m.Group())
	require.Equal(t, id, m.DeduplicationID(""))
	m.Gen = 2
	require.Equal(t, id+"-r2", m.DeduplicationID(""))
	require.Equal(t, id+"-r2-x", m.DeduplicationID("x"))
	m.EventType = promotion.Lottery
	require.Regexp(t, "^demo#[0-3][0-9a-f]$", m.Group())
	whole := promotion.Body(other)
	for _, bad := range []string{
		"", "{", "[]", "{}", `{"eventId":"demo","members":[]}`, strings.Replace(whole, "demo", "a#b", 1), strings.Replace(whole, other.RequestID, "x", 1),
		strings.Replace(whole, "bob", "", 1), strings.Replace(whole, `"gen":1`, `"gen":-1`, 1),
	} {
		_, err := promotion.DecodeBody(bad)
		require.Error(t, err, bad)
	}
	pair := []promotion.Outgoing{{Message: other}, {Message: m}}
	both := promotion.DeduplicationID(pair)
	require.Equal(t, both, promotion.DeduplicationID(pair))
	require.Equal(t, other.DeduplicationID(""), promotion.DeduplicationID(pair[:1]), "alone as ever")
	require.LessOrEqual(t, len(both), 128)
	pair[1].CopyID = "x"
	require.NotEqual(t, both, promotion.DeduplicationID(pair))
	longest := promotion.Message{RequestID: id, EventID: strings.Repeat("e", 64), Gen: 1 << 40}
	require.LessOrEqual(t, len(longest.DeduplicationID(uuid.NewString())), 128, "SQS's limit")
}

// A larger expected crowd raises Shards and MaxUnsettled. A smaller one never lowers Shards.
func TestExpect(t *testing.T) {
	t.Parallel()
	p := promotion.Promotion{Shards: 16}
	for _, tc := range []struct {
		visitors, within, shards, unsettled int64
	}{
		{0, 0, 16, 10_000},
		{9000, 1, 36, 10_000},
		{50_000, 3600, 36, 50_000},
		{1_000_000, 1, 128, 100_000},
		{0, 0, 128, 10_000},
	} {
		p.Expect(plan.Expected{Visitors: tc.visitors, WithinSeconds: tc.within})
		require.Equal(t, []int64{tc.shards, tc.unsettled}, []int64{p.Shards, p.MaxUnsettled()})
	}
}

// Applications are spread so that as many come a second as workers settle, or as are expected, and in
// the first half of the time in which the promotion is open.
func TestSpread(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		expected     plan.Expected
		open, spread time.Duration
	}{
		{plan.Expected{}, time.Hour, 0},
		{plan.Expected{Visitors: 1000, WithinSeconds: 1}, time.Hour, 0},
		{plan.Expected{Visitors: 60_000, WithinSeconds: 3600}, 24 * time.Hour, time.Minute},
		{plan.Expected{Visitors: 1_000_000, WithinSeconds: 60}, time.Hour, time.Minute},
		{plan.Expected{Visitors: 1_000_000, WithinSeconds: 60}, time.Minute, 30 * time.Second},
	} {
		p := promotion.Promotion{Expected: c.expected, OpensAt: now, ClosesAt: now + c.open.Milliseconds()}
		require.Equal(t, c.spread, p.Spread(), "%v", c)
	}
}
