package bench

import (
	"context"

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

	generalRow = "general_admission"
)

// seatGroup is the rows of holds, through ticket's gRPC.
func seatGroup() group {
	return group{rows: []string{"seat_hold", generalRow, "best_available"}, run: runSeats}
}

func runSeats(ctx context.Context, opts Options, wanted []string, done func(rounds.Result)) error {
	services := harness.Options{Production: true, Services: []string{platform.Ticket}}
	return harness.Run(ctx, services, func(ctx context.Context, p *harness.Platform) error {
		s, err := newSales(p) //nolint:contextcheck // its pool closes with the platform
		if err != nil {
			return err
		}
		return measureRows(ctx, opts, wanted, done, row{
			result: rounds.Result{
				Name: "seat_hold", What: "hold a seat, 64 clients", Besides: "pgbench, 64 clients: a transaction per hold",
				Unit: "µs per hold", Must: 0.65, Aim: 1,
			},
			begin: s.begin("seat_hold"), subject: s.holdSeats, baseline: s.holdSeatsPlainly, check: s.countHolds,
		}, row{
			result: rounds.Result{
				Name: generalRow, What: "hold an admission, 256 clients", Besides: "pgbench, 64 clients: a transaction per admission",
				Unit: "µs per admission", Must: 6, Aim: 10,
			},
			begin: s.begin(generalRow), subject: s.admit, baseline: s.admitPlainly, check: s.countAdmissions,
		}, row{
			// The baseline writes as many seats: what is compared is the choice of the seats.
			result: rounds.Result{
				Name: "best_available", What: "hold 4 adjacent seats, the best that are free, 64 clients", Besides: "hold 4 adjacent seats that are named, 64 clients",
				Unit: "µs per hold", Must: 0.5, Aim: 0.8, Limits: map[string]float64{"deadlocks": 0, "tries": 1.1},
			},
			begin: s.begin("best_available"), subject: s.holdBest, baseline: s.holdNamed, check: s.countHolds,
		})
	})
}
