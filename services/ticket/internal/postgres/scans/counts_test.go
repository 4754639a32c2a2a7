package scans_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
)

// published calls PublishCounts on three replicas at once, and returns the new Kafka events.
func (h *hall) published(t *testing.T) (counts []string) {
	t.Helper()
	var replicas errgroup.Group
	for range 3 {
		replicas.Go(func() error { return h.Scans.PublishCounts(t.Context()) })
	}
	require.NoError(t, replicas.Wait())
	rows, err := h.Pool.Query(t.Context(), `
		WITH sent AS (DELETE FROM outbox WHERE type = 'TICKETS_CHECKED_IN' RETURNING topic, key, payload::jsonb AS p)
		SELECT concat_ws(' ', topic, key, p ->> 'eventId', p ->> 'occurredAt', sum((p ->> 'quantity')::int)) FROM sent
		GROUP BY topic, key, p ->> 'eventId', p ->> 'occurredAt' HAVING sum((p ->> 'quantity')::int) <> 0 ORDER BY 1`)
	require.NoError(t, err)
	counts, err = pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return counts
}

// Each check-in is published once, by minute, and is subtracted if it is undone. A scan by an
// offline door counts in the minute in which the door read the code.
func TestCheckInsAreCountedByMinute(t *testing.T) {
	t.Parallel()
	h := open(t)
	var codes []string
	for _, seat := range []string{"A-1-1", "A-1-2", "A-1-3", "A-1-4"} {
		codes = append(codes, h.buy(t, "u-"+seat, seat).code)
	}
	h.close(time.Hour)
	minute := func(before time.Duration) string {
		return h.Clock.Now().Add(-before).Truncate(time.Minute).UTC().Format("2006-01-02T15:04:05.000Z")
	}
	first := h.mustCheckIn(t, codes[0])
	h.mustCheckIn(t, codes[1])
	_, err := h.checkIn(t.Context(), first.Ticket.ID.String())
	require.Error(t, err, "it is no code")
	early, late := h.offline(codes[2]), h.offline(codes[3])
	early.At, late.At = early.At.Add(-10*time.Minute), late.At.Add(10*time.Minute)
	h.upload(t, 1, early, late, h.offline("no code"))
	require.Equal(t, []string{
		"reservation-events e e " + minute(10*time.Minute) + " 1", "reservation-events e e " + minute(0) + " 3",
	}, h.published(t), "a door's clock may be fast")
	require.Empty(t, h.published(t))

	_, err = h.doors.Undo(t.Context(), "e", first.Scan.ID)
	require.NoError(t, err)
	require.Equal(t, []string{"reservation-events e e " + minute(0) + " -1"}, h.published(t))
	again := h.mustCheckIn(t, h.code(t, first.Ticket.ID))
	_, err = h.doors.Undo(t.Context(), "e", again.Scan.ID)
	require.NoError(t, err)
	require.Empty(t, h.published(t))
}
