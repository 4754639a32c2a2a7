package scans_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/config"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/testkit"
	"urr.guru/pkg/token/tokentest"
	"urr.guru/services/ticket/internal/checkin"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/ticket"
)

func TestMain(m *testing.M) { testkit.MainWithoutLeaks(m) }

// hall is an event with its doors.
type hall struct {
	*storetest.Service

	keys  ticket.Keys
	codes *ticket.Service
	doors *checkin.Service
}

func open(t *testing.T, sections ...event.Section) *hall {
	t.Helper()
	svc := storetest.New(t)
	keys, err := ticket.ParseKeys(config.Secret("k:" + tokentest.Seed('x')))
	require.NoError(t, err)
	codes := ticket.NewService(svc.Tickets, keys)
	h := &hall{Service: svc, keys: keys, codes: codes, doors: checkin.NewService(svc.Scans, codes)}
	if len(sections) == 0 {
		sections = []event.Section{storetest.Rows("A", 70, 1, 9)}
	}
	svc.Put(t, storetest.Spec("e", event.Assigned, sections...))
	return h
}

// bought is a ticket, its code, and the payment that paid for it.
type bought struct {
	id      uuid.UUID
	code    string
	payment purchase.Payment
}

func (h *hall) buy(t *testing.T, user, seat string) bought {
	t.Helper()
	r := h.MustHoldSeats(t, user, seat)
	p := storetest.Payment(r)
	h.Confirm(t, r, p)
	id := h.TicketIDs(t, p)[0]
	return bought{id: id, code: h.code(t, id), payment: p}
}

func (h *hall) code(t *testing.T, id uuid.UUID) string {
	t.Helper()
	return h.codes.Code(h.find(t, id))
}

func (h *hall) find(t *testing.T, id uuid.UUID) *ticket.Ticket {
	t.Helper()
	found, err := h.Tickets.FindTicket(t.Context(), id)
	require.NoError(t, err)
	return &found.Ticket
}

var gate = checkin.Batch{EventID: "e", Device: "gate-1", UserID: "staff"}

func (h *hall) checkIn(ctx context.Context, code string) (*checkin.Outcome, error) {
	return h.doors.CheckIn(ctx, gate, code)
}

func (h *hall) mustCheckIn(t *testing.T, code string) *checkin.Outcome {
	t.Helper()
	o, err := h.checkIn(t.Context(), code)
	require.NoError(t, err)
	return o
}

// offline returns the scan of a code by an offline door, now.
func (h *hall) offline(code string) checkin.Scanned {
	return checkin.Scanned{ScanID: uuid.New(), Code: code, At: h.Clock.Now()}
}

// upload uploads scans of a door whose list is of this epoch, and returns their results.
func (h *hall) upload(t *testing.T, epoch int, scans ...checkin.Scanned) []checkin.Result {
	t.Helper()
	door := gate
	door.Device, door.Epoch = "gate-2", epoch
	list, err := h.doors.Upload(t.Context(), door, scans)
	require.NoError(t, err)
	results := make([]checkin.Result, len(list))
	for i, o := range list {
		require.Equal(t, scans[i].ScanID, o.Scan.ID)
		results[i] = o.Scan.Result
	}
	return results
}

func (h *hall) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	_, err := h.Pool.Exec(t.Context(), sql, args...)
	require.NoError(t, err)
}

// counts reads the counts of check-ins without the cache.
func (h *hall) counts(t *testing.T) checkin.Counts {
	t.Helper()
	c, err := h.Scans.Counts(t.Context(), "e")
	require.NoError(t, err)
	return c
}

// requireWhy fails the test unless err is ErrNotValid for the given reason.
func requireWhy(t *testing.T, why checkin.Result, err error) {
	t.Helper()
	require.ErrorIs(t, err, checkin.ErrNotValid)
	require.Equal(t, string(why), errs.From(err).Metadata["why"])
}

// close moves the clock to d after the end of refunds and transfers.
func (h *hall) close(d time.Duration) { h.Clock.Set(storetest.Start.Add(47*time.Hour + d)) }
