package e2e_test

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/scripts/harness"
)

// TestCheckIn buys a ticket, shows its code, and checks it in once at the door.
func TestCheckIn(t *testing.T) {
	t.Parallel()
	p := harness.Start(t, harness.Options{})
	event := newSale(t, p)
	b := newBuyer(t, p, event)
	held := b.hold("A-1-1")
	b.confirm(b.prepare(held), "ok-"+uuid.NewString())
	b.awaitStatus(p, held, "CONFIRMED")
	var list struct {
		Items []struct{ TicketID, Code string }
	}
	b.MustCall(t.Context(), http.MethodGet, "/api/v1/my/tickets", nil, &list)
	require.Len(t, list.Items, 1)
	ticket := list.Items[0]
	qr := "/api/v1/my/tickets/" + ticket.TicketID + "/qr.svg"
	image, err := b.Call(t.Context(), http.MethodGet, qr, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, image.Status, "%s", image.Body)
	require.True(t, bytes.HasPrefix(image.Body, []byte("<svg")), "%s", image.Body)

	door := p.Client("door", "staff")
	body := map[string]any{"code": ticket.Code, "eventId": event, "deviceId": "Gate 1"}
	requireRefused(t, b.Client, "/api/v1/check-in", body, http.StatusForbidden, "ROLE_REQUIRED")
	var scan struct {
		ScanID string
		Seat   struct{ SeatID string }
	}
	door.MustCall(t.Context(), http.MethodPost, "/api/v1/check-in", body, &scan)
	require.Equal(t, "A-1-1", scan.Seat.SeatID)
	requireRefused(t, door, "/api/v1/check-in", body, http.StatusConflict, "ALREADY_USED")
	image, err = b.Call(t.Context(), http.MethodGet, qr, nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusConflict, image.Status, "a used ticket has no code")

	door.MustCall(t.Context(), http.MethodPost, "/api/v1/check-in/"+event+"/undo", map[string]any{"scanId": scan.ScanID}, nil)
	door.MustCall(t.Context(), http.MethodPost, "/api/v1/check-in", body, &scan)
	var counts struct{ Sold, CheckedIn, Conflicts int64 }
	door.MustCall(t.Context(), http.MethodGet, "/api/v1/check-in/"+event, nil, &counts)
	require.EqualValues(t, 1, counts.Sold)
}

// requireRefused sends a POST request and requires that it is refused with this status and code.
func requireRefused(t *testing.T, c *harness.Client, path string, body any, status int, code string) {
	t.Helper()
	a, err := c.Call(t.Context(), http.MethodPost, path, body)
	require.NoError(t, err)
	var problem struct{ Code string }
	require.NoError(t, a.Decode(&problem))
	require.Equal(t, status, a.Status, "%s", a.Body)
	require.Equal(t, code, problem.Code)
}
