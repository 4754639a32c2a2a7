package asyncevent_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/asyncevent"
	"urr.guru/pkg/dynamo"
)

const (
	now = int64(1_800_000_000_123)
	day = int64(24 * 3600 * 1000)
	id  = "018f2b5e-7b1a-7c3d-8e4f-0123456789ab"
)

func promotion() *asyncevent.Promotion {
	return &asyncevent.Promotion{
		EventID: "demo", Title: "Demo", EventType: asyncevent.FirstCome, CapacityTotal: 3, OpensAt: now - day, ClosesAt: now + day, Shards: 1,
		CreatedAt: now - 2*day,
	}
}

func request() asyncevent.Request { return asyncevent.NewRequest(promotion(), id, "ann", now) }

// Other programs and operators rely on names and formats of the items.
func TestLayoutOfARequest(t *testing.T) {
	t.Parallel()
	r := request()
	require.Equal(t, dynamo.Item{
		"PK": dynamo.String("REQ#" + id), "SK": dynamo.String("META"), "entityType": dynamo.String("REQUEST"),
		"requestId": dynamo.String(id), "eventId": dynamo.String("demo"), "userId": dynamo.String("ann"),
		"eventType": dynamo.String("FIRST_COME"), "idempotencyKey": dynamo.String("IDEMP#demo#ann"),
		"status": dynamo.String("RECEIVED"), "statusAt": dynamo.Number(now), "gen": dynamo.Number(0), "attempts": dynamo.Number(0),
		"requestedAt": dynamo.Number(now), "shards": dynamo.Number(1), "endsAt": dynamo.Number(now + day),
		"GSI1PK": dynamo.String("USER#ann"), "GSI1SK": dynamo.String("QAT#1800000000123#REQ#" + id),
		"GSI2PK": dynamo.String("EVENT#demo"), "GSI2SK": dynamo.String("QAT#1800000000123#REQ#" + id),
		"ttl": dynamo.Number((now + 91*day) / 1000),
	}, r.Item())
	queued := r.Queued(now + 5).After
	require.Equal(t, dynamo.String("QAT#1800000000128#REQ#"+id), queued.Item()["GSI1SK"])
	require.Equal(t, dynamo.String("QAT#1800000000128#REQ#"+id), queued.Item()["GSI2SK"])

	large := promotion()
	large.Shards = 4
	spread := asyncevent.NewRequest(large, id, "ann", now)
	sharded := dynamo.Reader{Item: spread.Item()}
	require.Contains(t, asyncevent.EventIndex("demo", 4), sharded.String("GSI2PK"))
}

func TestLayoutOfTheOtherItems(t *testing.T) {
	t.Parallel()
	r := request()
	marker := asyncevent.MarkerOf(&r, now)
	again := marker
	again.Gen = 2
	created := r.Created()
	outbox, _ := asyncevent.NewOutbox(now, []asyncevent.Announcement{asyncevent.AnnouncementOf(&r)})
	for name, tc := range map[string]struct {
		item   dynamo.Item
		pk, sk string
		ttl    int64 // seconds; 0: none
	}{
		"log":          {created.Logs[0].Item(), "REQ#" + id, "LOG#1800000000123", (now + 31*day) / 1000},
		"lock":         {(&asyncevent.Lock{EventID: "demo", UserID: "ann", RequestID: id, EndsAt: now + day}).Item(), "IDEMP#demo#ann", "LOCK", (now + 8*day) / 1000},
		"config":       {promotion().Item(), "EVENT#demo", "CONFIG", 0},
		"capacity":     {(&asyncevent.Capacity{EventID: "demo", Total: 3, Remaining: 3}).Item(), "EVENT#demo", "CAPACITY", 0},
		"list":         {promotion().ListItem(), "EVENTS", "EVENT#demo", 0},
		"creation key": {(&asyncevent.CreationKey{UserID: "op", Key: "k", CreatedAt: now}).Item(), "KEY#op#k", "LOCK", (now + day) / 1000},
		"marker":       {marker.Item(), "PENDING#??", "1800000000123#" + id, 0},
		"redriven":     {again.Item(), "PENDING#??", "1800000000123#" + id + "#r2", 0},
		"outbox":       {outbox, "OUTBOX#??", "1800000000123#*", 0},
		"dead letter":  {new(asyncevent.NewDeadLetter(id, now)).Item(), "DLQ#requests", "1800000000123#" + id, (now + 90*day) / 1000},
		"entry":        {(&asyncevent.Entry{EventID: "demo", RequestID: id, EndsAt: now}).Item(), "ENTRY#demo#??", id, (now + 90*day) / 1000},
		"excluded":     {(&asyncevent.Excluded{EventID: "demo", RequestID: id, EndsAt: now}).Item(), "EXCLUDED#demo", id, (now + 90*day) / 1000},
		"counts":       {asyncevent.CountsKey("demo", 31), "EVENT#demo", "COUNTS#f", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := dynamo.Reader{Item: tc.item}
			require.Regexp(t, "^"+strings.ReplaceAll(tc.pk, "?", "[0-9a-f]")+"$", d.String("PK"))
			require.Regexp(t, "^"+strings.ReplaceAll(tc.sk, "*", ".{36}")+"$", d.String("SK"))
			require.Equal(t, tc.ttl, d.Number("ttl"))
			require.NoError(t, d.Err())
			for attribute := range tc.item {
				require.NotContains(t, attribute, "GSI", "only requests are in the indexes")
			}
		})
	}
}

func TestItemsAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	r := request()
	full := r.Attempted(now+1, asyncevent.Failure{Class: asyncevent.Retryable, Code: "X", Message: "why"}).After
	full.EnteredAt, full.LotteryCutoffAt, full.AnnouncedAt = now+7, now+8, now+9
	failed := full.Failed(now+20, asyncevent.FailedWorker, asyncevent.Failure{Class: asyncevent.NonRetryable, Code: "Y", Message: "that"}).After
	failed.QueueSeq = asyncevent.QueueSeq("17")
	for _, want := range []asyncevent.Request{r, full, failed} {
		got, err := asyncevent.DecodeRequest(want.Item())
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	p := promotion()
	p.Paused, p.ClosedAt, p.VoidedAt, p.LotteryCutoffAt, p.AnnouncedAt, p.Version = true, now, now+1, now+2, now+3, 4
	gotPromotion, err := asyncevent.DecodePromotion(p.Item())
	require.NoError(t, err)
	require.Equal(t, *p, gotPromotion)
	m := asyncevent.MarkerOf(&r, now)
	m.QueuedAt, m.Gen = now+4, 3
	gotMarker, err := asyncevent.DecodeMarker(m.Item())
	require.NoError(t, err)
	require.Equal(t, m, gotMarker)
	letter := asyncevent.NewDeadLetter(id, now)
	letter.RequestID, letter.EventID, letter.Body, letter.ErrorCode, letter.ErrorMessage, letter.RedrivenAt = id, "demo", "{", "C", "M", now
	letter.Partition = asyncevent.DeadLetters
	gotLetter, err := asyncevent.DecodeDeadLetter(letter.Item())
	require.NoError(t, err)
	require.Equal(t, letter, gotLetter)
	rows := []asyncevent.Announcement{asyncevent.AnnouncementOf(&failed)}
	item, _ := asyncevent.NewOutbox(now, rows)
	gotOutbox, err := asyncevent.DecodeOutbox(item)
	require.NoError(t, err)
	require.Equal(t, rows, gotOutbox.Rows)
	capacity := asyncevent.Capacity{EventID: "demo", Total: 5, Remaining: 0, UpdatedAt: now, SentAt: now}
	gotCapacity, err := asyncevent.DecodeCapacity(capacity.Item())
	require.NoError(t, err)
	require.Equal(t, capacity, gotCapacity)

	_, err = asyncevent.DecodeRequest(dynamo.Item{"requestId": dynamo.Number(1)})
	require.Error(t, err)
	_, err = asyncevent.DecodeRequest(dynamo.Item{"requestId": dynamo.String(id)})
	require.ErrorContains(t, err, "missing")
}

// path is the statuses of a change's log.
func path(c asyncevent.Change) string {
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
	attempted := queued.Attempted(now+20, asyncevent.Failure{Class: asyncevent.Retryable, Code: "X"})
	failed := attempted.After.Failed(now+30, asyncevent.FailedWorker, asyncevent.Failure{Class: asyncevent.Retryable, Code: "Z"})
	settle := func(r asyncevent.Request, now int64) asyncevent.Change {
		return r.Settled(now, asyncevent.Succeeded, asyncevent.Success, "7")
	}
	for name, tc := range map[string]struct {
		change asyncevent.Change
		want   string
	}{
		"queued":                      {received.Queued(now), "QUEUED"},
		"queued by a clock behind":    {received.Queued(now - 5000), "QUEUED"},
		"settled":                     {settle(queued, now), "PROCESSING SUCCEEDED"},
		"settled by a clock behind":   {settle(queued, 0), "PROCESSING SUCCEEDED"},
		"settled before it is queued": {settle(received, now), "QUEUED PROCESSING SUCCEEDED"},
		"attempted":                   {attempted, "PROCESSING"},
		"attempted again":             {attempted.After.Attempted(now, asyncevent.Failure{}), ""},
		"settled after an attempt":    {settle(attempted.After, now), "SUCCEEDED"},
		"rejected early":              {received.Ended(now, asyncevent.Rejected, asyncevent.RejectedCapacity), "REJECTED"},
		"failed":                      {failed, "FAILED_FINAL"},
		"redriven":                    {failed.After.Redriven(now), "QUEUED"},
		"requeued":                    {attempted.After.Requeued(), ""},
	} {
		require.Equal(t, tc.want, path(tc.change), name)
	}
	done := settle(attempted.After, now).After
	require.Empty(t, done.ErrorCode, "what an attempt left is gone")
	require.Equal(t, strings.Repeat("0", 38)+"7", done.QueueSeq)
	require.NotZero(t, done.FinishedAt)
	require.Equal(t, "Z", failed.After.ErrorCode)
	again := failed.After.Redriven(now).After
	require.Equal(t, int64(1), again.Gen)
	require.Zero(t, again.Attempts)
	require.Empty(t, again.ResultCode)
	require.Empty(t, again.ErrorCode)
	require.Zero(t, again.FinishedAt)
	require.Equal(t, queued.QueuedAt, again.QueuedAt, "its place in the lists stays")

	long := received.Failed(now, asyncevent.FailedWorker, asyncevent.Failure{Message: strings.Repeat("한", 100)}).After.ErrorMessage
	require.LessOrEqual(t, len(long), 256)
	require.Equal(t, strings.Repeat("한", 85), long, "cut between characters")
}

func TestWhatPagesShow(t *testing.T) {
	t.Parallel()
	for status, want := range map[asyncevent.Status]asyncevent.UIResult{
		asyncevent.Received: asyncevent.UIPending, asyncevent.Queued: asyncevent.UIPending, asyncevent.Processing: asyncevent.UIPending,
		asyncevent.Succeeded: asyncevent.UISuccess, asyncevent.Rejected: asyncevent.UIRejected, asyncevent.FailedFinal: asyncevent.UIFailed,
	} {
		require.Equal(t, want, status.UIResult())
	}
	first := request()
	require.Empty(t, first.UIPhase(now))
	lottery := asyncevent.Request{EventType: asyncevent.Lottery, LotteryCutoffAt: 100, AnnouncedAt: 200}
	for at, want := range map[int64]asyncevent.UIPhase{
		99: asyncevent.Collecting, 100: asyncevent.Drawing, 199: asyncevent.Drawing, 200: asyncevent.Announced,
	} {
		require.Equal(t, want, lottery.UIPhase(at), at)
	}
}

func TestStatusOfAPromotion(t *testing.T) {
	t.Parallel()
	p := asyncevent.Promotion{OpensAt: 100, ClosesAt: 200}
	lottery := asyncevent.Promotion{OpensAt: 100, ClosesAt: 200, LotteryCutoffAt: 200, AnnouncedAt: 300}
	closed := p
	closed.ClosedAt = 150
	void := p
	void.VoidedAt = 1
	paused := p
	paused.Paused = true
	for _, tc := range []struct {
		p       asyncevent.Promotion
		at      int64
		want    asyncevent.PromotionStatus
		accepts bool
	}{
		{p, 99, asyncevent.PromotionScheduled, false},
		{p, 100, asyncevent.PromotionOpen, true},
		{p, 199, asyncevent.PromotionOpen, true},
		{p, 200, asyncevent.PromotionClosed, false},
		{lottery, 299, asyncevent.PromotionClosed, false},
		{lottery, 300, asyncevent.PromotionAnnounced, false},
		{closed, 149, asyncevent.PromotionOpen, true},
		{closed, 150, asyncevent.PromotionClosed, false},
		{void, 150, asyncevent.PromotionVoid, false},
		{paused, 150, asyncevent.PromotionOpen, false},
	} {
		require.Equal(t, tc.want, tc.p.Status(tc.at))
		require.Equal(t, tc.accepts, tc.p.Accepts(tc.at))
	}
}

func TestMessages(t *testing.T) {
	t.Parallel()
	r := request()
	m := asyncevent.MessageOf(&r)
	got, err := asyncevent.DecodeMessage(m.Body())
	require.NoError(t, err)
	require.Equal(t, m, got)
	require.Equal(t, "demo", m.Group())
	require.Equal(t, id, m.DeduplicationID(""))
	m.Gen = 2
	require.Equal(t, id+"-r2", m.DeduplicationID(""))
	require.Equal(t, id+"-r2-x", m.DeduplicationID("x"))
	m.EventType = asyncevent.Lottery
	require.Regexp(t, "^demo#[0-3][0-9a-f]$", m.Group())
	for _, bad := range []string{"", "{", "[]", `{"requestId":"x","eventId":"demo"}`, `{"requestId":"` + id + `","eventId":"a#b","userId":"ann"}`, `{"requestId":"` + id + `","eventId":"demo","userId":"ann","gen":-1}`, `{"requestId":"` + id + `","eventId":"demo"}`} {
		_, err := asyncevent.DecodeMessage(bad)
		require.Error(t, err, bad)
	}
	longest := asyncevent.Message{RequestID: id, EventID: strings.Repeat("e", 64), Gen: 1 << 40}
	require.LessOrEqual(t, len(longest.DeduplicationID(uuid.NewString())), 128, "SQS's limit")
}

func TestCounts(t *testing.T) {
	t.Parallel()
	c := asyncevent.Counts{Accepted: 7}
	c.Add(asyncevent.Success, 2)
	c.Add(asyncevent.FailedWorker, -1)
	require.Equal(t, int64(6), c.Unsettled())
	u := c.Update()
	require.Equal(t, "SET #type = :type ADD #c0 :c0, #c1 :c1, #c2 :c2", u.Expression)
	sum, err := asyncevent.DecodeCounts([]dynamo.Item{
		{"accepted": dynamo.Number(3), "result_SUCCESS": dynamo.Number(1)}, {"accepted": dynamo.Number(4), "result_REJECTED_LATE": dynamo.Number(2)},
	})
	require.NoError(t, err)
	require.Equal(t, int64(4), sum.Unsettled())
	require.Equal(t, map[asyncevent.ResultCode]int64{asyncevent.Success: 1, asyncevent.RejectedLate: 2}, sum.Results)
}
