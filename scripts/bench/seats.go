package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	"urr.guru/pkg/rounds"
	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
)

const (
	// buyers hold places at the same time.
	buyers = 64
	// generalBuyers are the buyers of general admission, where holds share transactions. Its baseline
	// has no more than the others: sessions that wait for one row slow each other down.
	generalBuyers = 256
	// Holds of a round: about a second.
	seatHolds, bestHolds, admissionHolds, plainHolds, plainAdmissions = 2500, 2400, 12_800, 1920, 1280
	// party is how many adjacent seats a buyer of best_available wants.
	party = 4
	// Subjects hold places of section A, baselines of section B.
	sectionRows, seatsPerRow, sectionAdmissions = 250, 100, 10_000_000
	// crowdedPlaces are fewer than are wanted.
	crowdedPlaces = 500
	drainLimit    = 30 * time.Second

	generalRow = "general_admission"
)

// seatGroup is the rows of holds, through ticket's gRPC.
func seatGroup() group {
	return group{rows: []string{"seat_hold", generalRow, "best_available"}, run: runSeats}
}

// saleRow is a row of holds, and what must be true in the end.
type saleRow struct {
	result            rounds.Result
	subject, baseline rounds.Side
	check             func(context.Context) error
}

func (s *sales) rows() []saleRow {
	return []saleRow{
		{rounds.Result{
			Name: "seat_hold", What: "hold a seat, 64 clients", Besides: "pgbench, 64 clients: a transaction per hold",
			Unit: "µs per hold", Must: 0.65, Aim: 1,
		}, s.holdSeats("A"), s.holdSeatsPlainly, s.countHolds},
		{rounds.Result{
			Name: generalRow, What: "hold an admission, 256 clients", Besides: "pgbench, 64 clients: a transaction per admission",
			Unit: "µs per admission", Must: 6, Aim: 10,
		}, s.admit, s.admitPlainly, s.countAdmissions},
		{rounds.Result{
			Name: "best_available", What: "hold 4 adjacent seats, the best that are free, 64 clients", Besides: "seat_hold: hold a seat, 64 clients",
			Unit: "µs per hold", Must: 0.5, Aim: 0.8, Limits: map[string]float64{"deadlocks": 0, "tries": 1.1},
		}, s.holdBest, s.holdSeats("B"), s.countHolds},
	}
}

func runSeats(ctx context.Context, opts Options, wanted []string, done func(rounds.Result)) error {
	services := harness.Options{Production: true, Services: []string{platform.Ticket}}
	return harness.Run(ctx, services, func(ctx context.Context, p *harness.Platform) error {
		s, err := newSales(p) //nolint:contextcheck // its pool closes with the platform
		if err != nil {
			return err
		}
		for _, row := range s.rows() {
			if !slices.Contains(wanted, row.result.Name) {
				continue
			}
			if err := s.begin(ctx, row.result.Name); err != nil {
				return err
			}
			r, err := compare(ctx, opts.Rounds, row.result, row.subject, row.baseline)
			if err == nil {
				err = row.check(ctx)
			}
			if err != nil {
				return fmt.Errorf("%s: %w", row.result.Name, err)
			}
			done(r)
		}
		return nil
	})
}
