package room_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/errs"
	"urr.guru/services/vwr/internal/pass"
	"urr.guru/services/vwr/internal/room"
	"urr.guru/services/vwr/internal/room/roomtest"
)

// desk is one replica over a shared store.
type desk struct {
	*room.Service
	*room.Admin

	board *room.Board
}

func desks(t *testing.T, n int) (*roomtest.Memory, []desk) {
	t.Helper()
	m := roomtest.NewMemory(time.Now)
	passes, err := pass.New("0123456789abcdef0123456789abcdef")
	if err != nil {
		t.Fatal(err)
	}
	out := make([]desk, n)
	for i := range out {
		b := room.NewBoard()
		out[i] = desk{
			Service: room.NewService(b, m, m, passes, m, time.Now, func() float64 { return 0.5 }),
			Admin:   room.NewAdmin(b, m, time.Now), board: b,
		}
	}
	return m, out
}

func (d desk) activate(t *testing.T) room.State {
	t.Helper()
	st, err := d.Activate(t.Context(), "e", room.Change{})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func (d desk) assign(t *testing.T, visitor string) room.Assigned {
	t.Helper()
	a, err := d.Assign(t.Context(), "e", visitor)
	if err != nil {
		t.Fatalf("assign %s: %v", visitor, err)
	}
	return a
}

func (d desk) check(t *testing.T, visitor string, a room.Assigned, ticket string) room.Checked {
	t.Helper()
	c, err := d.Check(t.Context(), "e", visitor, a.RequestID, ticket)
	if err != nil {
		t.Fatalf("check %s: %v", visitor, err)
	}
	return c
}

func refused(t *testing.T, what string, err error, want *errs.Error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: got %v, want %s", what, err, want.Reason)
	}
}

func TestAssignIsTheSameAtEveryReplica(t *testing.T) {
	t.Parallel()
	_, d := desks(t, 2)
	_, err := d[0].Assign(t.Context(), "e", "a")
	refused(t, "before the activation", err, room.ErrInactive)
	d[0].activate(t)
	first := d[0].assign(t, "a")
	if first.Position != 1 || first.EstimatedWait != 1 || first.NextPoll != 2 || first.Ticket == "" {
		t.Errorf("the first visitor: %+v", first)
	}
	// The other replica has not read since the activation.
	if again := d[1].assign(t, "a"); again.Record != first.Record {
		t.Errorf("again: %+v, want %+v", again.Record, first.Record)
	}
	if b := d[1].assign(t, "b"); b.Position != 2 {
		t.Errorf("the second visitor: %d, want 2", b.Position)
	}
	_, err = d[0].Assign(t.Context(), "e", "")
	refused(t, "without a visitor", err, room.ErrVisitorRequired)
}

func TestCheckAdmitsTheServed(t *testing.T) {
	t.Parallel()
	m, d := desks(t, 2)
	d[0].activate(t)
	a, b := d[0].assign(t, "a"), d[0].assign(t, "b")
	c := d[0].check(t, "b", b, b.Ticket)
	if c.Admitted || c.Ahead != 2 || c.Token != "" || c.NextPoll != 2 || c.Ticket != "" {
		t.Errorf("waiting: %+v", c)
	}
	if _, err := d[0].Advance(t.Context(), "e", 1); err != nil {
		t.Fatal(err)
	}
	// The other replica's memory is older than the counter that the visitor has seen.
	c = d[1].check(t, "a", a, a.Ticket)
	if !c.Admitted || c.Token == "" || c.Ahead != 0 || time.Until(c.TokenEnds) < 9*time.Minute {
		t.Errorf("served: %+v", c)
	}
	if c := d[1].check(t, "b", b, b.Ticket); c.Admitted {
		t.Error("the second is admitted with the first")
	}
	d[0].check(t, "a", a, a.Ticket)
	if got := roomtest.Read(t, m, "e"); got.Claimed != 1 {
		t.Errorf("claimed %d, want 1", got.Claimed)
	}
	// Memory is enough for who is served.
	m.Fail(true)
	if c := d[1].check(t, "a", a, a.Ticket); !c.Admitted {
		t.Error("a served visitor needs the store")
	}
	if _, err := d[1].Check(t.Context(), "e", "b", b.RequestID, b.Ticket); !errors.Is(err, roomtest.ErrDown) {
		t.Errorf("who is not known to be served: %v", err)
	}
}

func TestCheckWithoutTicketReadsTheRecord(t *testing.T) {
	t.Parallel()
	_, d := desks(t, 2)
	d[0].activate(t)
	a := d[0].assign(t, "a")
	c := d[1].check(t, "a", a, "")
	if c.Position != 1 || c.Ticket == "" {
		t.Errorf("lost ticket: %+v", c)
	}
	if got := d[0].check(t, "a", a, c.Ticket); got.Position != 1 {
		t.Errorf("with the new ticket: %+v", got)
	}
	_, err := d[0].Check(t.Context(), "e", "thief", a.RequestID, "")
	refused(t, "another visitor's request", err, room.ErrUnknown)
	_, err = d[0].Check(t.Context(), "e", "a", uuid.New(), "")
	refused(t, "an unknown request", err, room.ErrUnknown)
	_, err = d[0].Check(t.Context(), "e", "a", uuid.New(), a.Ticket)
	refused(t, "a ticket of another request", err, room.ErrUnknown)
	_, err = d[0].Check(t.Context(), "other", "a", a.RequestID, a.Ticket)
	refused(t, "a ticket of another event", err, room.ErrUnknown)
	_, err = d[0].Check(t.Context(), "e", "thief", a.RequestID, a.Ticket)
	refused(t, "another visitor's ticket", err, room.ErrUnknown)
}

func TestAnotherRoundIsUnknown(t *testing.T) {
	t.Parallel()
	m, d := desks(t, 2)
	one := d[0].activate(t)
	a := d[0].assign(t, "a")
	if _, err := d[0].Deactivate(t.Context(), "e"); err != nil {
		t.Fatal(err)
	}
	if c := d[1].check(t, "a", a, a.Ticket); !c.Admitted || c.Token == "" {
		t.Errorf("a closed room admits everyone: %+v", c)
	}
	if got := roomtest.Read(t, m, "e"); got.Claimed != 0 {
		t.Errorf("claimed %d: whom a closed room lets through says nothing about the rate", got.Claimed)
	}
	_, err := d[1].Assign(t.Context(), "e", "a")
	refused(t, "assign in a closed room", err, room.ErrInactive)
	two := d[0].activate(t)
	if two.Round <= one.Round || two.Issued != 0 || two.Serving != 0 {
		t.Errorf("the second round: %+v after %+v", two, one)
	}
	for _, ticket := range []string{a.Ticket, ""} {
		_, err := d[1].Check(t.Context(), "e", "a", a.RequestID, ticket)
		refused(t, "a position of the first round", err, room.ErrUnknown)
	}
	// This replica remembers the first round; it must not give out its positions.
	b := d[1].assign(t, "b")
	if b.Round != two.Round || b.Position != 1 {
		t.Errorf("first of the second round: %+v", b.Record)
	}
	if again := d[1].assign(t, "a"); again.Position != 2 || again.RequestID == a.RequestID {
		t.Errorf("the same visitor in the second round: %+v", again.Record)
	}
}

// A replica that still remembers an earlier round as active notices when it writes.
func TestAssignFollowsARoundThatChangedElsewhere(t *testing.T) {
	t.Parallel()
	_, d := desks(t, 2)
	d[1].activate(t)
	d[1].assign(t, "a")
	if _, err := d[0].Deactivate(t.Context(), "e"); err != nil {
		t.Fatal(err)
	}
	two := d[0].activate(t)
	if b := d[1].assign(t, "b"); b.Round != two.Round || b.Position != 1 {
		t.Errorf("got %+v, want position 1 of round %d", b.Record, two.Round)
	}
}

// A replica that remembers an event as closed asks before it turns a visitor away: another may just have opened it.
func TestAssignFollowsAnActivationElsewhere(t *testing.T) {
	t.Parallel()
	_, d := desks(t, 2)
	d[1].activate(t)
	if _, err := d[1].Deactivate(t.Context(), "e"); err != nil {
		t.Fatal(err)
	}
	two := d[0].activate(t)
	if a := d[1].assign(t, "a"); a.Round != two.Round || a.Position != 1 {
		t.Errorf("got %+v, want position 1 of round %d", a.Record, two.Round)
	}
}

// The clock of a replica may be behind that of the one which opened the last round: rounds grow all the same.
func TestRoundsGrowWhateverTheClocksSay(t *testing.T) {
	t.Parallel()
	m, d := desks(t, 1)
	one := d[0].activate(t)
	behind := room.NewAdmin(room.NewBoard(), m, func() time.Time { return time.Now().Add(-time.Hour) })
	if _, err := behind.Deactivate(t.Context(), "e"); err != nil {
		t.Fatal(err)
	}
	if two, err := behind.Activate(t.Context(), "e", room.Change{}); err != nil || two.Round <= one.Round {
		t.Errorf("round %d after %d, %v", two.Round, one.Round, err)
	}
}

// contested is a store whose counter others have always just moved, for a while.
type contested struct {
	*roomtest.Memory

	left int
}

func (c *contested) Serve(ctx context.Context, seen room.Counters, to int64) error {
	if c.left > 0 {
		c.left--
		return room.ErrStale
	}
	return c.Memory.Serve(ctx, seen, to)
}

// The advancing replicas write the counter that an operator moves: the act is decided anew on what they wrote, and given up some time.
func TestOperatorsInsist(t *testing.T) {
	t.Parallel()
	m, d := desks(t, 1)
	d[0].activate(t)
	d[0].assign(t, "a")
	c := &contested{Memory: m, left: 5}
	admin := room.NewAdmin(room.NewBoard(), c, time.Now)
	if st, err := admin.Advance(t.Context(), "e", 1); err != nil || st.Serving != 1 {
		t.Errorf("behind five others: %+v, %v", st, err)
	}
	d[0].assign(t, "b")
	c.left = 1000
	_, err := admin.Advance(t.Context(), "e", 1)
	refused(t, "behind a thousand", err, room.ErrUnavailable)
}

func TestActivateChangesOnlyWhatIsGiven(t *testing.T) {
	t.Parallel()
	_, d := desks(t, 1)
	one := d[0].activate(t)
	if one.Settings != room.DefaultSettings() {
		t.Errorf("a round without settings: %+v", one.Settings)
	}
	d[0].assign(t, "a")
	batch := int64(20)
	st, err := d[0].Activate(t.Context(), "e", room.Change{Batch: &batch})
	want := room.DefaultSettings()
	want.Batch = 20
	if err != nil || st.Settings != want || st.Round != one.Round || st.Issued != 1 {
		t.Errorf("changed: %+v, %v", st, err)
	}
	inlet := room.MaxInFlight
	_, err = d[0].Activate(t.Context(), "e", room.Change{Inlet: &inlet})
	refused(t, "an inlet without its maximum", err, room.ErrInvalidSettings)
	if e := errs.From(err); len(e.Fields) != 1 || e.Fields[0].Path != "maxInFlight" {
		t.Errorf("the fields: %+v", e.Fields)
	}
}

func TestOperators(t *testing.T) {
	t.Parallel()
	_, d := desks(t, 1)
	ctx := t.Context()
	for name, act := range map[string]func() (room.State, error){
		"deactivate": func() (room.State, error) { return d[0].Deactivate(ctx, "e") },
		"advance":    func() (room.State, error) { return d[0].Advance(ctx, "e", 1) },
		"status":     func() (room.State, error) { return d[0].Status(ctx, "e") },
	} {
		_, err := act()
		refused(t, name+" of an event without a room", err, room.ErrInactive)
	}
	d[0].activate(t)
	for _, visitor := range []string{"a", "b", "c"} {
		d[0].assign(t, visitor)
	}
	if st, err := d[0].Advance(ctx, "e", 2); err != nil || st.Serving != 2 {
		t.Errorf("advance by 2: %+v, %v", st, err)
	}
	if st, err := d[0].Advance(ctx, "e", 0); err != nil || st.Serving != 3 {
		t.Errorf("advance by a batch: %+v, %v, want the last position, 3", st, err)
	}
	if st, err := d[0].Advance(ctx, "e", 5); err != nil || st.Serving != 3 {
		t.Errorf("advance an empty line: %+v, %v", st, err)
	}
	for range 2 {
		if st, err := d[0].Deactivate(ctx, "e"); err != nil || st.Active {
			t.Errorf("deactivate: %+v, %v", st, err)
		}
	}
	_, err := d[0].Advance(ctx, "e", 1)
	refused(t, "advance a closed room", err, room.ErrInactive)
	if st, err := d[0].Status(ctx, "e"); err != nil || st.Active || st.Issued != 3 {
		t.Errorf("status: %+v, %v", st, err)
	}
}

func TestCounters(t *testing.T) {
	t.Parallel()
	_, d := desks(t, 2)
	d[0].activate(t)
	d[0].assign(t, "a")
	got, err := d[1].Counters(t.Context(), []string{"e", "unknown"})
	if err != nil || len(got) != 1 || got[0].Issued != 1 || !got[0].Active {
		t.Errorf("got %+v, %v", got, err)
	}
}
