package bench

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"urr.guru/pkg/batch"
	"urr.guru/pkg/benchtest"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc/batchrpc"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
)

const (
	// buyers is the number of clients that hold places at the same time.
	buyers = 64
	// generalBuyers is that number for general admission, where the ticket service makes several holds
	// in one transaction. The baseline has only `buyers` clients, since more sessions that wait for
	// one row slow each other down.
	generalBuyers = 256
	// The numbers of holds in a round, which takes about a second.
	seatHolds, admissionHolds, plainHolds, plainAdmissions = 2500, 12_800, 1920, 1280
	// Sizes of an event's sections. A measured row uses section A, and its baseline section B.
	sectionRows, seatsPerRow, sectionAdmissions = 250, 100, 10_000_000
	// crowdedPlaces is the number of places in a section that has twice as many buyers.
	crowdedPlaces = 500

	generalRow = "general_admission"
)

// runSeats measures the rows of holds, by gRPC calls to the ticket service.
func runSeats(ctx context.Context, opts Options, wanted []string, addResult func(benchtest.Result)) error {
	services := harness.Options{Production: true, Services: []string{platform.Ticket}}
	return harness.Run(ctx, services, func(ctx context.Context, p *harness.Platform) error {
		s, err := newHoldRows(p)
		if err != nil {
			return err
		}
		return measureRows(ctx, opts, wanted, addResult, benchRow{
			result: benchtest.Result{
				Name: "seat_hold", What: "hold a seat, 64 clients", Besides: "pgbench, 64 clients: a transaction per hold",
				Unit: "µs per hold", Must: 0.65, Aim: 1,
			},
			begin: s.begin("seat_hold"), subject: s.measureSeats, baseline: s.measureSeatsBaseline, check: s.checkHolds,
		}, benchRow{
			result: benchtest.Result{
				Name: generalRow, What: "hold an admission, 256 clients", Besides: "pgbench, 64 clients: a transaction per admission",
				Unit: "µs per admission", Must: 6, Aim: 10,
			},
			begin: s.begin(generalRow), subject: s.measureAdmissions, baseline: s.measureAdmissionsBaseline, check: s.checkAdmissions,
		})
	})
}

// holdRows measures the rows of holds. It opens a new event when too few places are left.
type holdRows struct {
	pid   int    // process id of the ticket service
	url   string // URL of the ticket service's database
	db    *pgxpool.Pool
	admin ticketv1.EventAdminServiceClient
	// seats and best are clients of the ticket service that send calls in batches, like the gateway.
	seats *batch.Coalescer[*ticketv1.HoldSeatsItem, *ticketv1.Reservation]
	best  *batch.Coalescer[*ticketv1.HoldBestItem, *ticketv1.Reservation]

	row    string
	event  string
	events int // number of events opened for this row so far
	// taken has, by section, the number of places that the row has used in the current event.
	taken map[string]int64
}

// likeGateway configures batches as in the gateway, but with a timeout that suits busy machines.
var likeGateway = batch.Config{Max: 256, Delay: 150 * time.Microsecond, Inflight: 8, Timeout: time.Minute}

// likeGatewayOfCrowds is for the calls of a crowd, which wait longer until a batch is sent.
var likeGatewayOfCrowds = batch.Config{Max: 256, Delay: 2 * time.Millisecond, Overlap: 10 * time.Millisecond, Inflight: 8, Timeout: time.Minute}

func newHoldRows(p *harness.Platform) (*holdRows, error) {
	w := p.Wiring()
	service, err := platform.Lookup(platform.Ticket)
	if err != nil {
		return nil, err
	}
	s := &holdRows{pid: p.Service(platform.Ticket).PID(0), url: w.DatabaseURL(service), db: p.DB(platform.Ticket)}
	conn := p.Dial(platform.Gateway, platform.Ticket, 0, longTimeout())
	s.admin = ticketv1.NewEventAdminServiceClient(conn)
	holds := ticketv1.NewHoldServiceClient(conn)
	s.seats = batch.NewItems(likeGateway, batchrpc.Call(holds.HoldSeats, func(items []*ticketv1.HoldSeatsItem) *ticketv1.HoldSeatsRequest {
		return &ticketv1.HoldSeatsRequest{Items: items}
	}, (*ticketv1.HoldResult).GetReservation))
	s.best = batch.NewItems(likeGateway, batchrpc.Call(holds.HoldBest, func(items []*ticketv1.HoldBestItem) *ticketv1.HoldBestRequest {
		return &ticketv1.HoldBestRequest{Items: items}
	}, (*ticketv1.HoldResult).GetReservation))
	return s, nil
}

// begin returns a function that opens the first event of a row.
func (s *holdRows) begin(row string) func(context.Context) error {
	return func(ctx context.Context) error {
		s.row, s.events = row, 0
		return s.openEvent(ctx)
	}
}

// openEvent opens a new event. All its places are free.
func (s *holdRows) openEvent(ctx context.Context) error {
	s.events++
	s.event, s.taken = fmt.Sprintf("bench-%s-%d", s.row, s.events), map[string]int64{}
	sections := []*ticketv1.SectionSpec{{Section: "A"}, {Section: "B"}}
	for _, section := range sections {
		if s.row == generalRow {
			section.Capacity = new(int64(sectionAdmissions))
		} else {
			section.Rows, section.SeatsPerRow = new(int32(sectionRows)), new(int32(seatsPerRow))
		}
	}
	return s.putSections(ctx, s.event, sections...)
}

func (s *holdRows) putSections(ctx context.Context, event string, sections ...*ticketv1.SectionSpec) error {
	_, err := s.admin.PutEvent(ctx, putEventRequest(event, 1, sections...))
	return err
}

// reservePlaces chooses n consecutive unused places of a section for the caller, and returns the
// number of the first. If too few are left, it opens a new event.
func (s *holdRows) reservePlaces(ctx context.Context, section string, n int64) (first int64, err error) {
	if s.row != generalRow && s.taken[section]+n > sectionRows*seatsPerRow {
		err = s.openEvent(ctx)
	}
	first = s.taken[section]
	s.taken[section] += n
	return first, err
}

// measureHolds calls hold n times in `clients` goroutines, each time with another number. It first
// waits until the Kafka events of earlier holds are published, whose cost must not be measured. It
// returns the elapsed µs per hold, and the CPU time of the ticket service and of the buyers.
func (s *holdRows) measureHolds(ctx context.Context, clients, n int, hold func(context.Context, int64) error) (float64, map[string]float64, error) {
	if err := awaitPublished(ctx, s.db); err != nil {
		return 0, nil, err
	}
	var µs float64
	cpu := processes{"ticket": {s.pid}, "buyers": {os.Getpid()}}.cpuTimes
	parts, err := cpuMeter(cpu).perRequest(ctx, n, func() error {
		began := time.Now()
		err := runConcurrently(ctx, clients, n, func(ctx context.Context, i int) error { return hold(ctx, int64(i)) })
		µs = microsPerItem(time.Since(began), n)
		return err
	})
	return µs, parts, err
}

// measureSeats measures holds of one seat each in section A. The buyer chooses the seat.
func (s *holdRows) measureSeats(ctx context.Context) (float64, map[string]float64, error) {
	first, err := s.reservePlaces(ctx, "A", seatHolds)
	if err != nil {
		return 0, nil, err
	}
	return s.measureHolds(ctx, buyers, seatHolds, func(ctx context.Context, i int64) error {
		seat := first + i
		_, err := s.seats.Do(ctx, &ticketv1.HoldSeatsItem{
			Caller: s.buyerCaller("A", seat), EventId: s.event, SeatIds: []string{fmt.Sprintf("A-%d-%d", seat/seatsPerRow+1, seat%seatsPerRow+1)},
		})
		return err
	})
}

// measureAdmissions measures holds of one place each, in a section without numbered seats.
func (s *holdRows) measureAdmissions(ctx context.Context) (float64, map[string]float64, error) {
	first, err := s.reservePlaces(ctx, "A", admissionHolds)
	if err != nil {
		return 0, nil, err
	}
	return s.measureHolds(ctx, generalBuyers, admissionHolds, func(ctx context.Context, i int64) error {
		_, err := s.best.Do(ctx, admissionItem(s.buyerCaller("A", first+i)))
		return err
	})
}

// buyerCaller returns the user who makes the n-th hold in a section: a new one with a slot.
func (s *holdRows) buyerCaller(section string, n int64) *commonv1.Caller {
	user := fmt.Sprintf("bench-%s-%d", section, n)
	return &commonv1.Caller{UserId: user, EventId: s.event, SlotId: "slot-" + user}
}

func admissionItem(c *commonv1.Caller) *ticketv1.HoldBestItem {
	return &ticketv1.HoldBestItem{Caller: c, EventId: c.GetEventId(), Section: "A", Quantity: 1}
}

// checkHolds returns an error unless the seats that are held in the database, in the latest event,
// are exactly those that the clients have held, each once.
func (s *holdRows) checkHolds(ctx context.Context) error {
	var seats, live, want int64
	for _, n := range s.taken {
		want += n
	}
	err := s.db.QueryRow(ctx, `
		SELECT (SELECT count(*) FROM seats WHERE event_id = $1 AND status = 'HELD'),
		       (SELECT count(DISTINCT seat_id) FROM places WHERE event_id = $1 AND live)`, s.event).Scan(&seats, &live)
	if err == nil && (seats != want || live != want) {
		err = fmt.Errorf("%d seats are held by %d seats of reservations, not %d", seats, live, want)
	}
	return err
}

// checkAdmissions returns an error unless the sections' counters and the reservations agree with
// the number of held places. It also checks that a section with twice as many buyers as places
// sells all its places, but no more.
func (s *holdRows) checkAdmissions(ctx context.Context) error {
	for section, want := range s.taken {
		if err := s.requireAdmissions(ctx, s.event, section, want); err != nil {
			return err
		}
	}
	s.event += "-crowded"
	if err := s.putSections(ctx, s.event, &ticketv1.SectionSpec{Section: "A", Capacity: new(int64(crowdedPlaces))}); err != nil {
		return err
	}
	err := runConcurrently(ctx, generalBuyers, 2*crowdedPlaces, func(ctx context.Context, i int) error {
		_, err := s.best.Do(ctx, admissionItem(s.buyerCaller("A", int64(i))))
		if err != nil && errs.From(err).Reason == "SOLD_OUT" {
			return nil
		}
		return err
	})
	if err != nil {
		return err
	}
	return s.requireAdmissions(ctx, s.event, "A", crowdedPlaces)
}

func (s *holdRows) requireAdmissions(ctx context.Context, event, section string, want int64) error {
	var counted, reserved int64
	err := s.db.QueryRow(ctx, `
		SELECT held + sold, (SELECT coalesce(sum(quantity), 0) FROM reservations r
		                     WHERE r.event_id = s.event_id AND r.section = s.section AND status = 'HELD')
		FROM sections s WHERE event_id = $1 AND section = $2`, event, section).Scan(&counted, &reserved)
	if err == nil && (counted != want || reserved != want) {
		err = fmt.Errorf("section %s counts %d admissions, and %d are reserved, not %d", section, counted, reserved, want)
	}
	return err
}
