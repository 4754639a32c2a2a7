package crowd

import (
	"context"
	"fmt"
	"net/http"
	"time"
)

// Sale describes the sale.
type Sale struct {
	EventID string
	Seats   int
	// Threshold is the maximum number of visitors inside.
	Threshold int
	// Rate is the number of positions of tier 1 served per second.
	Rate int
	// Proof is the proof of work that a position of tier 1 costs, in bits; 0 = none.
	Proof int
	// Hold and Slot are short, so that abandoned seats return while the crowd is there. Seconds.
	Hold, Slot int
}

// seatsPerRow is the width of the hall's rows.
const seatsPerRow = 20

// Open signs an operator in by the development login, and creates the sale with its waiting room
// closed.
func (s Sale) Open(ctx context.Context, api *API, operator string) error {
	admin := api.NewSession()
	if err := admin.DevLogin(ctx, operator, "admin"); err != nil {
		return err
	}
	now := time.Now().UTC().Truncate(time.Second)
	err := s.put(ctx, admin, now.Add(-time.Minute), now.Add(24*time.Hour))
	if err == nil {
		room := map[string]any{"batch": s.Rate, "intervalSeconds": 1, "proofOfWork": s.Proof}
		err = operate(ctx, admin, http.MethodPost, "/api/v1/admin/vwr/activate/"+s.EventID, room)
	}
	if err != nil {
		return fmt.Errorf("open the sale: %w", err)
	}
	return nil
}

// Close ends the sale immediately, with its waiting room: for an interrupted run.
func (s Sale) Close(ctx context.Context, api *API, operator string) error {
	admin := api.NewSession()
	if err := admin.DevLogin(ctx, operator, "admin"); err != nil {
		return err
	}
	now := time.Now().UTC().Truncate(time.Second)
	if err := s.put(ctx, admin, now.Add(-time.Hour), now); err != nil {
		return fmt.Errorf("close the sale: %w", err)
	}
	return operate(ctx, admin, http.MethodPost, "/api/v1/admin/vwr/deactivate/"+s.EventID, map[string]any{})
}

// put writes the event with a sale window by the operators' API.
func (s Sale) put(ctx context.Context, admin *Session, opens, closes time.Time) error {
	event := map[string]any{
		"title": "Demo " + s.EventID, "artist": "The Crowd", "venue": "Hall 1",
		"startsAt": opens.Add(30 * 24 * time.Hour), "salesOpenAt": opens, "salesCloseAt": closes,
		"seating": "ASSIGNED", "currency": "KRW", "maxPerUser": 2,
		"holdSeconds": s.Hold, "slotSeconds": s.Slot, "threshold": s.Threshold, "sections": s.sections(),
	}
	return operate(ctx, admin, http.MethodPut, "/api/v1/admin/events/"+s.EventID, event)
}

// sections creates full rows first; the remainder is a short row in its own section.
func (s Sale) sections() []map[string]any {
	var out []map[string]any
	if rows := s.Seats / seatsPerRow; rows > 0 {
		out = append(out, map[string]any{"section": "A", "price": 55000, "rows": rows, "seatsPerRow": seatsPerRow})
	}
	if rest := s.Seats % seatsPerRow; rest > 0 {
		out = append(out, map[string]any{"section": "B", "price": 33000, "rows": 1, "seatsPerRow": rest})
	}
	return out
}

// operate makes an operator's call, which may be repeated.
func operate(ctx context.Context, admin *Session, method, path string, body any) error {
	ans, err := admin.settled(ctx, StepLogin, method, path, body)
	if err != nil {
		return fmt.Errorf("%s %s: %w", method, path, err)
	}
	if !ans.OK() {
		return fmt.Errorf("%s %s: %d %s", method, path, ans.Status, firstLine(ans.Body))
	}
	return nil
}
