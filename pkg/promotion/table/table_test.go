package table_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
)

const (
	now = int64(1_800_000_000_123)
	day = int64(24 * 3600 * 1000)
	id  = "018f2b5e-7b1a-7c3d-8e4f-0123456789ab"
)

func demo() *promotion.Promotion {
	return &promotion.Promotion{
		EventID: "demo", Title: "Demo", EventType: promotion.FirstCome, CapacityTotal: 3, OpensAt: now - day, ClosesAt: now + day, Shards: 1,
		CreatedAt: now - 2*day,
	}
}

func request() promotion.Request { return promotion.NewRequest(demo(), id, "ann", now) }

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
	}, table.RequestItem(&r))
	queued := r.Queued(now + 5).After
	require.Equal(t, dynamo.String("QAT#1800000000128#REQ#"+id), table.RequestItem(&queued)["GSI1SK"])
	require.Equal(t, dynamo.String("QAT#1800000000128#REQ#"+id), table.RequestItem(&queued)["GSI2SK"])

	large := demo()
	large.Shards = 4
	spread := promotion.NewRequest(large, id, "ann", now)
	sharded := dynamo.Reader{Item: table.RequestItem(&spread)}
	require.Contains(t, table.EventIndex("demo", 4), sharded.String("GSI2PK"))
	require.Equal(t, []string{"EVENT#demo", "EVENT#demo#1", "EVENT#demo#2"}, table.EventIndex("demo", 3))
	require.Equal(t, table.EventIndex("demo", 1), table.EventIndex("demo", 0))
}

func TestLayoutOfTheOtherItems(t *testing.T) {
	t.Parallel()
	r := request()
	marker := promotion.MarkerOf(&r, now)
	again := marker
	again.Gen = 2
	created := r.Created()
	outbox, _ := table.NewOutbox(now, []promotion.Announcement{promotion.AnnouncementOf(&r)})
	for name, tc := range map[string]struct {
		item   dynamo.Item
		pk, sk string
		ttl    int64 // seconds; 0: none
	}{
		"log":          {table.LogItem(&created.Logs[0]), "REQ#" + id, "LOG#1800000000123", (now + 31*day) / 1000},
		"lock":         {table.LockItem(&promotion.Lock{EventID: "demo", UserID: "ann", RequestID: id, EndsAt: now + day}), "IDEMP#demo#ann", "LOCK", (now + 8*day) / 1000},
		"config":       {table.PromotionItem(demo()), "EVENT#demo", "CONFIG", 0},
		"capacity":     {table.CapacityItem(&promotion.Capacity{EventID: "demo", Total: 3, Remaining: 3}), "EVENT#demo", "CAPACITY", 0},
		"list":         {table.ListItem("demo"), "EVENTS", "EVENT#demo", 0},
		"creation key": {(&table.CreationKey{UserID: "op", Key: "k", CreatedAt: now}).Item(), "KEY#op#k", "LOCK", (now + day) / 1000},
		"marker":       {table.MarkerItem(&marker), "PENDING#??", "1800000000123#" + id, 0},
		"redriven":     {table.MarkerItem(&again), "PENDING#??", "1800000000123#" + id + "#r2", 0},
		"outbox":       {outbox, "OUTBOX#??", "1800000000123#*", 0},
		"dead letter":  {table.DeadLetterItem(new(promotion.NewDeadLetter(id, now))), "DLQ#requests", "1800000000123#" + id, (now + 90*day) / 1000},
		"entry":        {table.EntryItem(&promotion.Entry{EventID: "demo", RequestID: id, EndsAt: now}), "ENTRY#demo#??", id, (now + 90*day) / 1000},
		"excluded":     {table.ExclusionItem(&promotion.Exclusion{EventID: "demo", RequestID: id, EndsAt: now}), "EXCLUDED#demo", id, (now + 90*day) / 1000},
		"counts":       {table.CountsKey("demo", 31), "COUNTS#demo#31", "COUNTS", 0},
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
	full := r.Attempted(now+1, promotion.Failure{Class: promotion.Retryable, Code: "X", Message: "why"}).After
	full.EnteredAt, full.LotteryCutoffAt, full.AnnouncedAt = now+7, now+8, now+9
	failed := full.Failed(now+20, promotion.FailedWorker, promotion.Failure{Class: promotion.NonRetryable, Code: "Y", Message: "that"}).After
	failed.QueueSeq = promotion.Turn{SequenceNumber: "17"}.QueueSeq()
	for _, want := range []promotion.Request{r, full, failed} {
		got, err := table.DecodeRequest(table.RequestItem(&want))
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	p := demo()
	p.Paused, p.ClosedAt, p.VoidedAt, p.LotteryCutoffAt, p.AnnouncedAt, p.PublishedAt, p.Version = true, now, now+1, now+2, now+3, now+4, 4
	gotPromotion, err := table.DecodePromotion(table.PromotionItem(p))
	require.NoError(t, err)
	require.Equal(t, *p, gotPromotion)
	m := promotion.MarkerOf(&r, now)
	m.QueuedAt, m.Gen = now+4, 3
	gotMarker, err := table.DecodeMarker(table.MarkerItem(&m))
	require.NoError(t, err)
	require.Equal(t, m, gotMarker)
	letter := promotion.NewDeadLetter(id, now)
	letter.RequestID, letter.EventID, letter.Body, letter.ErrorCode, letter.ErrorMessage, letter.RedrivenAt = id, "demo", "{", "C", "M", now
	letter.Queue = promotion.DeadLetters
	gotLetter, err := table.DecodeDeadLetter(table.DeadLetterItem(&letter))
	require.NoError(t, err)
	require.Equal(t, letter, gotLetter)
	rows := []promotion.Announcement{promotion.AnnouncementOf(&failed)}
	item, _ := table.NewOutbox(now, rows)
	gotOutbox, err := table.DecodeOutbox(item)
	require.NoError(t, err)
	require.Equal(t, rows, gotOutbox.Rows)
	capacity := promotion.Capacity{EventID: "demo", Total: 5, Remaining: 0, UpdatedAt: now, SentAt: now}
	gotCapacity, err := table.DecodeCapacity(table.CapacityItem(&capacity))
	require.NoError(t, err)
	require.Equal(t, capacity, gotCapacity)

	_, err = table.DecodeRequest(dynamo.Item{"requestId": dynamo.Number(1)})
	require.Error(t, err)
	_, err = table.DecodeRequest(dynamo.Item{"requestId": dynamo.String(id)})
	require.ErrorContains(t, err, "missing")
}

func TestCounts(t *testing.T) {
	t.Parallel()
	c := promotion.Counts{Accepted: 7}
	c.Add(promotion.Success, 2)
	c.Add(promotion.FailedWorker, -1)
	require.Equal(t, int64(6), c.Unsettled())
	u := table.CountsUpdate(&c)
	require.Equal(t, "SET #type = :type ADD #c0 :c0, #c1 :c1, #c2 :c2", u.Expression)
	sum, err := table.DecodeCounts([]dynamo.Item{
		{"accepted": dynamo.Number(3), "result_SUCCESS": dynamo.Number(1)}, {"accepted": dynamo.Number(4), "result_REJECTED_LATE": dynamo.Number(2)},
	})
	require.NoError(t, err)
	require.Equal(t, int64(4), sum.Unsettled())
	require.Equal(t, map[promotion.ResultCode]int64{promotion.Success: 1, promotion.RejectedLate: 2}, sum.Results)
}
