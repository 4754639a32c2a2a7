package runner

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"urr.guru/scripts/crowd"
)

// demoEvent is the sale that a fresh run contains.
const demoEvent = "demo"

// Seed creates the demo sale once, by the API of the gateway at the URL, which must have DEV_LOGIN;
// tickets sold in it are kept.
func Seed(ctx context.Context, url string, say func(format string, args ...any)) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	api := crowd.NewAPI(url, crowd.NewRecorder())
	defer api.Close()
	operator := api.NewSession()
	there, err := operator.Call(ctx, crowd.StepEvent, http.MethodGet, "/api/v1/events/"+demoEvent, nil, nil)
	switch {
	case err != nil || there.OK():
		return err
	case there.Status != http.StatusNotFound:
		return fmt.Errorf("look for the demo sale: %d: %s", there.Status, there.Body)
	}
	if err := operator.DevLogin(ctx, "operator", "admin"); err != nil {
		return err
	}
	now := time.Now().UTC().Truncate(time.Hour)
	put, err := operator.Call(ctx, crowd.StepEvent, http.MethodPut, "/api/v1/admin/events/"+demoEvent, map[string]any{
		"title": "URR demo night", "artist": "The Placeholders", "venue": "Seoul Hall",
		"startsAt": now.AddDate(0, 1, 0), "salesOpenAt": now.Add(-time.Hour), "salesCloseAt": now.AddDate(0, 1, 0).Add(-time.Hour),
		"seating": "ASSIGNED", "currency": "KRW", "maxPerUser": 4, "threshold": 100,
		"sections": []map[string]any{
			{"section": "A", "price": 165000, "rows": 10, "seatsPerRow": 20},
			{"section": "B", "price": 110000, "rows": 10, "seatsPerRow": 20},
			{"section": "C", "price": 55000, "rows": 10, "seatsPerRow": 20},
		},
	}, nil)
	switch {
	case err != nil:
		return err
	case !put.OK():
		return fmt.Errorf("create the demo sale: %d: %s", put.Status, put.Body)
	}
	say("%-16s seeded: 600 seats", "demo sale")
	return nil
}
