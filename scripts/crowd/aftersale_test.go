package crowd_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/crowd"
)

// gateway answers the requests of buyers and doors, and those to the payment provider.
type gateway struct {
	mu       sync.Mutex
	refunded map[string]bool
	used     map[string]string // by a ticket's code: the door that admitted it
	// letsAllIn makes doors admit every ticket, loses makes every second answer to a scan get lost,
	// and refuses makes the provider refuse every refund.
	letsAllIn, loses, refuses bool
	scans                     int
	passing
}

func (g *gateway) RoundTrip(r *http.Request) (*http.Response, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	var body struct {
		TicketIDs      []string
		Code, DeviceID string
		passingBody
	}
	if r.Body != nil {
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			return nil, err
		}
	}
	status, answer := http.StatusOK, map[string]any{"token": "t"}
	id := r.URL.Path[strings.LastIndex(r.URL.Path, "/")+1:]
	switch {
	case g.knows(r.URL.Path):
		status, answer = g.pass(r, body.passingBody)
	case strings.HasPrefix(r.URL.Path, "/api/v1/my/tickets/"):
		answer = map[string]any{"status": "VALID", "ticketId": id, "code": "code-" + id, "seat": map[string]any{"seatId": "seat of " + strings.TrimRight(id, "+")}}
		if g.refunded[id] {
			answer = map[string]any{"status": "REFUNDED"}
		}
	case strings.HasSuffix(r.URL.Path, "/refund"):
		g.refunded[body.TicketIDs[0]] = !g.refuses
		status, answer = http.StatusAccepted, map[string]any{"status": "PENDING"}
	case strings.HasSuffix(r.URL.Path, "/by-hand"):
		order := strings.Split(r.URL.Path, "/")[3]
		g.refunded[order+"-1"], g.refunded[order+"-2"] = true, true
	case strings.HasPrefix(r.URL.Path, "/api/v1/payments/"):
		answer = map[string]any{"orderId": id}
	case r.URL.Path == "/api/v1/check-in":
		g.scans++
		status, answer = g.scan(body.Code, body.DeviceID)
		if g.loses && g.scans%2 == 1 {
			return nil, io.ErrUnexpectedEOF
		}
	}
	rec := httptest.NewRecorder()
	rec.WriteHeader(status)
	_ = json.NewEncoder(rec).Encode(answer)
	return rec.Result(), nil
}

func (g *gateway) scan(code, door string) (int, map[string]any) {
	switch by, used := g.used[code]; {
	case g.letsAllIn:
		return http.StatusOK, nil
	case g.passed[strings.TrimPrefix(code, "code-")]:
		return http.StatusConflict, map[string]any{"code": "NOT_VALID", "why": "TRANSFERRED"}
	case g.refunded[strings.TrimPrefix(code, "code-")]:
		return http.StatusConflict, map[string]any{"code": "NOT_VALID", "why": "REFUNDED"}
	case used:
		return http.StatusConflict, map[string]any{"code": "ALREADY_USED", "deviceId": by}
	default:
		g.used[code] = door
		return http.StatusOK, nil
	}
}

// sell has twenty buyers of two tickets keep, use or return them.
func sell(t *testing.T, g *gateway) *crowd.Tally {
	t.Helper()
	return sellTo(t, g, 20)
}

func sellTo(t *testing.T, g *gateway, buyers int) *crowd.Tally {
	t.Helper()
	g.refunded, g.used, g.passed = map[string]bool{}, map[string]string{}, map[string]bool{}
	c := crowd.New(crowd.Sale{EventID: "e"}, crowd.NewAPIOver(g, crowd.NewRecorder()), crowd.Options{
		AfterSale: &crowd.AfterSale{ProviderURL: "http://provider.test"},
	})
	for i := range buyers {
		order := fmt.Sprintf("o%d", i)
		require.NoError(t, c.UseTickets(t.Context(), order, order+"-1", order+"-2"))
	}
	return c.Tally()
}

// Of twenty orders, one is refunded at the provider, and three return one ticket. A third of the
// kept tickets are checked in. No ticket is admitted twice, or after its refund.
func TestAfterSale(t *testing.T) {
	t.Parallel()
	for _, loses := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			g := &gateway{loses: loses}
			tally := sell(t, g)
			require.EqualValues(t, 3, tally.GivenBack.Load())
			require.EqualValues(t, 2, tally.ByHand.Load())
			require.EqualValues(t, 11, tally.CheckedIn.Load())
			require.EqualValues(t, 8, tally.RefusedScans.Load())
			require.Empty(t, tally.Violations())
		})
	}
}

// A buyer whose refund the provider refuses still has a valid ticket.
func TestRefusedRefunds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tally := sell(t, &gateway{refuses: true})
		require.Zero(t, tally.GivenBack.Load())
		require.EqualValues(t, 2, tally.ByHand.Load())
		require.Empty(t, tally.Violations())
	})
}

func TestDoorsThatLetEverybodyIn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tally := sell(t, &gateway{letsAllIn: true})
		require.Len(t, tally.AdmittedAfterRefund(), 5)
		require.Len(t, tally.WrongAnswers(), 3, "a second scan, and two former tickets")
		require.Len(t, tally.Violations(), 8)
	})
}

// A sale stays sold out if no order could give seats back any more when its status was read.
func TestPlacesThatMayComeBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := crowd.New(crowd.Sale{}, crowd.NewAPI("http://gateway.test", crowd.NewRecorder()), crowd.Options{AfterSale: &crowd.AfterSale{}})
		require.True(t, c.SoldForGood(time.Now()))
		end := c.OrderBegins()
		require.False(t, c.SoldForGood(time.Now().Add(time.Hour)))
		end()
		require.False(t, c.SoldForGood(time.Now().Add(6*time.Second)), "the seats may come back until 2 s later, and the status be older")
		require.True(t, c.SoldForGood(time.Now().Add(8*time.Second)))
		c.OrderBegins()()
		require.True(t, c.SoldForGood(time.Now().Add(8*time.Second)), "most orders are kept")
	})
}
