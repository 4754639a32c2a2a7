package event_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/services/ticket/internal/event"
)

var noon = time.Date(2030, 5, 1, 12, 0, 0, 0, time.UTC)

func ptr[T any](v T) *T { return &v }

func assigned() event.Spec {
	return event.Spec{
		Title: "T", StartsAt: noon.Add(48 * time.Hour), SalesOpenAt: noon, SalesCloseAt: noon.Add(24 * time.Hour),
		Seating: event.Assigned, Currency: "KRW", MaxPerUser: 4, HoldSeconds: ptr(int32(60)),
		Sections: []event.Section{
			{Name: "A", Price: 70, Rows: 2, SeatsPerRow: 5},
			{Name: "B", Price: 50, Rows: 3, SeatsPerRow: 4, Capacity: 12},
		},
	}
}

func general() event.Spec {
	s := assigned()
	s.Seating, s.Sections = event.General, []event.Section{{Name: "A", Price: 70, Capacity: 9}}
	return s
}

func TestSpecIsStoredWithWhatFollowsFromIt(t *testing.T) {
	t.Parallel()
	s, err := assigned().Validated()
	require.NoError(t, err)
	require.Equal(t, []event.Section{
		{Name: "A", Price: 70, Capacity: 10, Rows: 2, SeatsPerRow: 5, First: 0},
		{Name: "B", Price: 50, Capacity: 12, Rows: 3, SeatsPerRow: 4, First: 10},
	}, s.Sections)
	s, err = general().Validated()
	require.NoError(t, err)
	require.Equal(t, []event.Section{{Name: "A", Price: 70, Capacity: 9}}, s.Sections)
}

func TestSpecRefuses(t *testing.T) {
	t.Parallel()
	for path, c := range map[string]struct {
		spec   event.Spec
		change func(*event.Spec)
	}{
		"salesCloseAt":         {assigned(), func(s *event.Spec) { s.SalesCloseAt = s.SalesOpenAt }},
		"startsAt":             {assigned(), func(s *event.Spec) { s.StartsAt = s.SalesOpenAt }},
		"title":                {assigned(), func(s *event.Spec) { s.Title = "\u200b\u3164 " }},
		"currency":             {assigned(), func(s *event.Spec) { s.Currency = "XYZ" }},
		"statementSuffix":      {assigned(), func(s *event.Spec) { s.StatementSuffix = new("가을") }},
		"timeZone":             {assigned(), func(s *event.Spec) { s.TimeZone = new("Asia/Soul") }},
		"sections[1].section":  {assigned(), func(s *event.Spec) { s.Sections[1].Name = "A" }},
		"sections[0].rows":     {assigned(), func(s *event.Spec) { s.Sections[0].Rows = 0 }},
		"sections[1].capacity": {assigned(), func(s *event.Spec) { s.Sections[1].Capacity = 13 }},
		"sections": {assigned(), func(s *event.Spec) {
			s.Sections[0].Rows, s.Sections[0].SeatsPerRow = 1000, 1000
		}},
		"sections[0].capacity": {general(), func(s *event.Spec) { s.Sections[0].Capacity = 0 }},
		"sections[0].rows ":    {general(), func(s *event.Spec) { s.Sections[0].Rows = 1 }},
	} {
		c.change(&c.spec)
		_, err := c.spec.Validated()
		require.ErrorIs(t, err, event.ErrInvalid, path)
		e := errs.From(err)
		require.Len(t, e.Fields, 1, path)
		require.Equal(t, path, e.Fields[0].Path+map[bool]string{true: " "}[path[len(path)-1] == ' '])
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*event.Spec)
		want   event.Changes
	}{
		"nothing":  {func(*event.Spec) {}, event.Changes{}},
		"zone":     {func(s *event.Spec) { s.StartsAt = s.StartsAt.In(time.FixedZone("KST", 9*3600)) }, event.Changes{}},
		"title":    {func(s *event.Spec) { s.Title = "new" }, event.Changes{Any: true}},
		"artist":   {func(s *event.Spec) { s.Artist = "new" }, event.Changes{Any: true}},
		"venue":    {func(s *event.Spec) { s.Venue = "new" }, event.Changes{Any: true}},
		"start":    {func(s *event.Spec) { s.StartsAt = s.StartsAt.Add(1000) }, event.Changes{Any: true}},
		"opening":  {func(s *event.Spec) { s.SalesOpenAt = s.SalesOpenAt.Add(1000) }, event.Changes{Any: true}},
		"default":  {func(s *event.Spec) { s.TimeZone = new("Asia/Seoul") }, event.Changes{}},
		"timezone": {func(s *event.Spec) { s.TimeZone = new("Asia/Tokyo") }, event.Changes{Any: true}},
		"closing":  {func(s *event.Spec) { s.SalesCloseAt = s.SalesCloseAt.Add(1000) }, event.Changes{Any: true}},
		"limit":    {func(s *event.Spec) { s.MaxPerUser++ }, event.Changes{Any: true}},
		"line":     {func(s *event.Spec) { s.Threshold, s.SlotSeconds = ptr(int64(1)), ptr(int64(60)) }, event.Changes{}},
		"hold":     {func(s *event.Spec) { s.HoldSeconds = nil }, event.Changes{Any: true}},
		"price":    {func(s *event.Spec) { s.Sections[0].Price++ }, event.Changes{Any: true}},
		"currency": {func(s *event.Spec) { s.Currency = "USD" }, event.Changes{Structure: true, Any: true}},
		"rows":     {func(s *event.Spec) { s.Sections[0].Rows = 3 }, event.Changes{Structure: true, Any: true}},
		"turned": {func(s *event.Spec) { s.Sections[0].Rows, s.Sections[0].SeatsPerRow = 5, 2 },
			event.Changes{Structure: true, Any: true}},
		"order": {func(s *event.Spec) { s.Sections[0], s.Sections[1] = s.Sections[1], s.Sections[0] }, event.Changes{Structure: true, Any: true}},
		"fewer": {func(s *event.Spec) { s.Sections = s.Sections[:1] }, event.Changes{Structure: true, Any: true}},
	} {
		before, after := assigned(), assigned()
		c.change(&after)
		before.Complete(nil)
		after.Complete(nil)
		a, err := before.Validated()
		require.NoError(t, err)
		b, err := after.Validated()
		require.NoError(t, err)
		require.Equal(t, c.want, event.Compare(a, b), name)
	}
	one, two := general(), general()
	two.Sections[0].Capacity = 10
	a, _ := one.Validated()
	b, _ := two.Validated()
	require.Equal(t, event.Changes{Any: true}, event.Compare(a, b), "more general admission is no change of structure")
}

func TestStatus(t *testing.T) {
	t.Parallel()
	s, err := assigned().Validated()
	require.NoError(t, err)
	e := event.Event{ID: "e", Spec: s}
	early := e
	early.Presale = &event.Presale{OpensAt: noon.Add(-time.Hour), MaxPerUser: 1}
	require.Equal(t, 1, early.Sale().Limit(noon.Add(-1)))
	require.Equal(t, e.MaxPerUser, early.Sale().Limit(noon))
	for _, c := range []struct {
		at       time.Time
		soldOut  bool
		want     event.Status
		entitled error
		others   error
	}{
		{noon.Add(-time.Hour - 1), false, event.StatusScheduled, event.ErrSaleNotOpen, event.ErrSaleNotOpen},
		{noon.Add(-time.Hour), false, event.StatusPresale, nil, event.ErrNotEntitled},
		{noon.Add(-1), true, event.StatusSoldOut, nil, event.ErrNotEntitled},
		{noon, false, event.StatusOnSale, nil, nil},
	} {
		require.Equal(t, c.want, early.Sale().Status(c.at, c.soldOut))
		require.ErrorIs(t, early.Sale().CheckOpen(c.at, true), c.entitled)
		require.ErrorIs(t, early.Sale().CheckOpen(c.at, false), c.others)
	}
	for _, c := range []struct {
		state   event.State
		at      time.Time
		soldOut bool
		want    event.Status
		admit   error
	}{
		{event.Open, noon.Add(-1), false, event.StatusScheduled, event.ErrSaleNotOpen},
		{event.Open, noon, false, event.StatusOnSale, nil},
		{event.Open, noon, true, event.StatusSoldOut, nil},
		{event.Open, e.SalesCloseAt.Add(-1), false, event.StatusOnSale, nil},
		{event.Open, e.SalesCloseAt, false, event.StatusClosed, event.ErrSaleNotOpen},
		{event.Paused, noon, false, event.StatusPaused, event.ErrSaleNotOpen},
		{event.Paused, e.SalesCloseAt, false, event.StatusClosed, event.ErrSaleNotOpen},
		{event.Cancelled, noon, false, event.StatusCancelled, event.ErrCancelled},
		{event.Cancelled, e.SalesCloseAt, false, event.StatusCancelled, event.ErrCancelled},
		{event.Ended, noon, false, event.StatusCancelled, event.ErrCancelled},
		{event.Ended, e.SalesCloseAt, true, event.StatusCancelled, event.ErrCancelled},
	} {
		e.State = c.state
		require.Equal(t, c.want, e.Sale().Status(c.at, c.soldOut))
		err := e.Sale().CheckOpen(c.at, true)
		if c.admit == nil {
			require.NoError(t, err)
			continue
		}
		require.ErrorIs(t, err, c.admit)
		if errors.Is(err, event.ErrSaleNotOpen) {
			require.Equal(t, map[string]string{"saleStatus": string(c.want), "salesOpenAt": "2030-05-01T12:00:00Z"}, errs.From(err).Metadata)
		}
	}
}

// The end of refunds follows from the times that are set.
func TestClosing(t *testing.T) {
	t.Parallel()
	start := assigned().StartsAt
	at := func(before time.Duration) *time.Time { return ptr(start.Add(-before)) }
	until := func(before time.Duration) *event.UserRefunds { return &event.UserRefunds{Until: start.Add(-before)} }
	for name, c := range map[string]struct {
		doors, closes       *time.Time
		users               *event.UserRefunds
		closesAt, refundEnd time.Duration // before the start
		none                bool
	}{
		"nothing":             {closesAt: time.Hour, refundEnd: time.Hour},
		"doors":               {doors: at(2 * time.Hour), closesAt: 2 * time.Hour, refundEnd: 2 * time.Hour},
		"closing":             {doors: at(2 * time.Hour), closes: at(3 * time.Hour), closesAt: 3 * time.Hour, refundEnd: 3 * time.Hour},
		"users":               {closes: at(3 * time.Hour), users: until(5 * time.Hour), closesAt: 3 * time.Hour, refundEnd: 5 * time.Hour},
		"users, not later":    {users: until(time.Minute), closesAt: time.Hour, refundEnd: time.Hour},
		"no refunds by users": {users: &event.UserRefunds{None: true}, closesAt: time.Hour, refundEnd: time.Hour, none: true},
	} {
		s := assigned()
		s.DoorsAt, s.ClosesAt, s.UserRefunds = c.doors, c.closes, c.users
		got := s.Closing()
		require.Equal(t, start.Add(-c.closesAt), got.ClosesAt, name)
		require.Equal(t, start.Add(-c.refundEnd), got.RefundUntil, name)
		require.Equal(t, !c.none, got.UserRefunds, name)
	}
}

func TestCheckClosing(t *testing.T) {
	t.Parallel()
	start := assigned().StartsAt
	s := assigned()
	require.NoError(t, s.CheckClosing())
	s.DoorsAt, s.ClosesAt, s.UserRefunds = ptr(start.Add(1)), ptr(start.Add(2)), &event.UserRefunds{Until: start.Add(3)}
	var paths []string
	for _, f := range errs.From(s.CheckClosing()).Fields {
		paths = append(paths, f.Path)
	}
	require.Equal(t, []string{"doorsAt", "closesAt", "refundUntil"}, paths)
	s.DoorsAt, s.ClosesAt, s.UserRefunds = &start, &start, &event.UserRefunds{Until: start}
	require.NoError(t, s.CheckClosing())
	s.UserRefunds = &event.UserRefunds{None: true, Until: start.Add(3)}
	require.NoError(t, s.CheckClosing())
}

func TestMoved(t *testing.T) {
	t.Parallel()
	old, changed := assigned(), assigned()
	changed.UserRefunds = &event.UserRefunds{None: true}
	require.Empty(t, event.MovedTimes(&old, &changed), "users' time may change")
	changed.DoorsAt = ptr(changed.StartsAt.Add(-time.Hour))
	require.Equal(t, []string{"doorsAt"}, event.MovedTimes(&old, &changed), "an hour before the start is when it closed")
	changed.StartsAt = changed.StartsAt.Add(time.Hour)
	require.Equal(t, []string{"startsAt", "doorsAt"}, event.MovedTimes(&old, &changed))
	changed.ClosesAt = ptr(old.StartsAt)
	require.Equal(t, []string{"startsAt", "doorsAt", "closesAt"}, event.MovedTimes(&old, &changed))
}
