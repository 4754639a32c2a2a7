package redis_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/services/queue/internal/line"
	"urr.guru/services/queue/internal/redis/admissiontest"
)

// setSale sets, at this replica, the status of a sale that opens at opens for a day. The next call
// passes it to the line.
func (f *fixture) setSale(status line.SaleStatus, opens time.Time) {
	f.t.Helper()
	f.known.Sale = line.Sale{
		Status: status, OpensAt: opens.UnixMilli(), ClosesAt: opens.Add(24 * time.Hour).UnixMilli(), At: f.clock().UnixMilli(),
	}
}

// ask reads the report on the sale again, unchanged. The next call passes it to the line.
func (f *fixture) ask() { f.known.Sale = f.reported(f.known.Sale) }

func (f *fixture) reported(s line.Sale) line.Sale {
	if s.At > 0 && !f.away {
		s.At = f.clock().UnixMilli()
	}
	return s
}

// forgetState empties the cache, as if the replica had just started.
func (f *fixture) forgetState() { f.known = line.KnownState{} }

func TestLineAdmitsDuringSale(t *testing.T) {
	for status, admits := range map[line.SaleStatus]bool{
		line.NoSale: true, line.OnSale: true, line.Scheduled: false, line.SalePaused: false, line.SoldOut: false,
		line.UnknownSale: false, line.UnknownSale + 90: false, // a number of a later release
	} {
		t.Run(fmt.Sprintf("status %d %s", status, status), func(t *testing.T) {
			f := setup(t, 2)
			in := f.join("in")
			opens := f.clock().Add(-time.Hour)
			if status == line.Scheduled {
				opens = f.clock().Add(time.Hour)
			}
			f.setSale(status, opens)
			require.Equal(t, admits, f.join("a").State == line.Inside, "at once")
			f.join("b")
			require.True(t, f.release("in", in.SlotID))
			f.live(2*time.Second, "a", "b")
			require.Equal(t, admits, f.status("b").State == line.Inside, "by a tick")
			st := f.peek()
			require.Equal(t, admits, st.Admitting())
			require.Equal(t, status, st.SaleStatus())

			f.advance(time.Second)
			f.setSale(line.OnSale, f.clock().Add(-time.Hour))
			f.live(2*time.Second, "a", "b")
			require.Equal(t, []string{"a", "b"}, f.set("active"), "both kept their places")
			require.Empty(t, admissiontest.FindOvertaken(f.admissions()))
		})
	}
}

// The opening is a time of Redis's clock and the same at all replicas, even at one that has not
// read the sale, and before the ticket service reports it as open.
func TestLineOpensWithSale(t *testing.T) {
	f := setup(t, 3)
	opens := f.clock().Add(time.Hour)
	f.setSale(line.Scheduled, opens)
	users := f.crowd("early", 5)
	f.live(10*time.Second, users...)
	require.Empty(t, f.set("active"))
	f.time.Set(opens.Add(-time.Millisecond))
	f.ask()
	f.peek()
	f.forgetState()
	f.poll(users...)
	f.tick()
	require.Empty(t, f.set("active"), "one that has just started knows it from the line")
	require.Equal(t, line.Waiting, f.join("late").State)

	f.advance(time.Millisecond)
	f.forgetState()
	f.tick()
	require.Equal(t, users[:3], f.set("active"))
	require.Equal(t, line.OnSale, f.peek().SaleStatus())

	// An operator postpones the sale; the ticket service's clock is ahead.
	f.setSale(line.OnSale, opens.Add(time.Hour))
	f.live(5*time.Second, users...)
	require.Equal(t, users[:3], f.set("active"), "who is inside stays")
	require.Equal(t, line.Scheduled, f.peek().SaleStatus())
	f.advance(time.Millisecond) // so that the next report is later
	f.setSale(line.Scheduled, f.clock())
	for _, u := range users[:3] {
		f.release(u, f.join(u).SlotID)
	}
	f.tick()
	require.Equal(t, []string{users[3], users[4], "late"}, f.set("active"))
}

func TestLaterSaleReportWins(t *testing.T) {
	f := setup(t, 1)
	first := f.known
	f.setSale(line.SoldOut, f.clock())
	f.peek()
	latest := f.known

	f.known = first
	f.known.Sale = line.Sale{Status: line.OnSale, At: latest.Sale.At - 1}
	require.Equal(t, line.SoldOut, f.peek().SaleStatus(), "an earlier one changes nothing")
	for name, lose := range map[string]func(){"a failover": f.failover, "a wipe": f.wipe} {
		f.known = latest
		lose()
		f.advance(time.Second)
		require.Equal(t, line.SoldOut, f.peek().SaleStatus(), name)
	}
	f.advance(-time.Hour) // Redis's clock is set back, so older reports are from the future
	f.setSale(line.OnSale, f.clock().Add(-time.Minute))
	require.Equal(t, line.OnSale, f.peek().SaleStatus())

	f.advance(time.Second)
	f.setSale(line.OnSale, f.clock().Add(-time.Minute))
	report := f.known.Sale
	f.advance(time.Second)
	f.observe(f.store.ApplySettings(f.ctx(), f.event, f.known, line.Settings{ClosesAt: f.clock()}, report.At-1))
	require.Equal(t, report.ClosesAt, f.peek().ClosesAt, "settings that were read before are older")
	f.apply(line.Settings{ClosesAt: f.clock().Add(time.Hour)})
	require.Equal(t, f.clock().Add(time.Hour).UnixMilli(), f.peek().ClosesAt)
}

// A minute after the end of a sale all data of its visitors is removed. If the sale is reopened
// later, its line is empty.
func TestEndOfSaleFreesLine(t *testing.T) {
	people := []string{"queue", "seen", "since", "parked", "parked-seen", "late", "active", "active-seen", "unclaimed", "slot", "holds", "old"}
	for name, end := range map[string]func(f *fixture){
		"its time is over": func(f *fixture) { f.advance(time.Hour) },
		"ticket says so":   func(f *fixture) { f.setSale(line.SaleClosed, f.clock().Add(-time.Hour)) },
		"cancelled":        func(f *fixture) { f.setSale(line.Cancelled, f.clock().Add(time.Hour)) },
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t, 2)
			f.setSale(line.OnSale, f.clock().Add(-23*time.Hour))
			f.known.Sale.ClosesAt = f.clock().Add(time.Hour).UnixMilli()
			in := f.join("in")
			f.hold("in", in.SlotID, f.clock().Add(2*time.Hour))
			users := f.crowd("w", 3)
			f.live(3*time.Minute, users[2]) // the other two do not return
			users = append(users, f.crowd("x", 2)...)
			f.failover()
			f.tick()
			require.NotEmpty(t, f.set("old"))
			require.NotEmpty(t, f.set("queue"))
			require.NotEmpty(t, f.set("parked"))

			end(f)
			for _, u := range append(users, "in", "new") {
				require.Equal(t, line.NotInLine, f.join(u).State, u)
			}
			f.tick()
			f.advance(time.Minute)
			f.tick()
			require.NotEmpty(t, f.set("queue"), "ticket has not repeated it since")
			f.known.Sale.At = f.clock().UnixMilli()
			f.tick()
			for _, set := range people {
				n, err := f.client.Exists(f.ctx(), f.key(set)).Result()
				require.NoError(t, err)
				require.Zero(t, n, set)
			}
			require.True(t, f.peek().SaleStatus().Ended())
			ttl := func() time.Duration {
				d, err := f.client.TTL(f.ctx(), f.key("line")).Result()
				require.NoError(t, err)
				return d
			}
			require.Positive(t, ttl(), "also if no cleanup follows")
			f.clean()
			require.Positive(t, ttl())

			f.advance(time.Minute)
			f.setSale(line.OnSale, f.clock().Add(-time.Hour))
			require.Equal(t, line.Inside, f.join("new").State)
		})
	}
}

// A sale may end by mistake, or by a report of a ticket service replica that does not know its
// extension yet. If that is reverted within a minute, no place and no slot is lost.
func TestRevertedEndOfSaleKeepsPlaces(t *testing.T) {
	for name, end := range map[string]func(f *fixture){
		"its time was over": func(f *fixture) { f.known.Sale.ClosesAt = f.clock().UnixMilli() },
		"ticket said so":    func(f *fixture) { f.known.Sale.Status = line.SaleClosed },
		"cancelled":         func(f *fixture) { f.known.Sale.Status = line.Cancelled },
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t, 1)
			f.setSale(line.OnSale, f.clock())
			in := f.join("in")
			users := f.crowd("w", 3)
			f.live(time.Second, append(users, "in")...)
			for range 2 { // after each end there is another minute
				f.advance(time.Second)
				f.setSale(line.OnSale, f.clock())
				end(f)
				for range 60 {
					require.Equal(t, line.NotInLine, f.join(users[0]).State)
					f.tick()
					f.advance(time.Second - time.Millisecond)
					f.known.Sale.At = f.clock().UnixMilli()
				}
				f.tick()
				f.advance(time.Millisecond)
				f.setSale(line.OnSale, f.clock().Add(-time.Hour))
				f.tick()
				require.Equal(t, users, f.set("queue"), "who could not ask has missed nothing")
			}
			again := f.join("in")
			require.Equal(t, line.Inside, again.State)
			require.Equal(t, in.SlotID, again.SlotID)
			require.True(t, f.release("in", in.SlotID))
			f.live(3*time.Second, users...)
			require.Equal(t, users[:1], f.set("active"))
			require.Equal(t, users[1:], f.set("queue"))
		})
	}
}

// While the ticket service is away, an end cannot be verified, so all data is kept.
func TestOutageOfTicketKeepsPlaces(t *testing.T) {
	f := setup(t, 1)
	f.setSale(line.OnSale, f.clock().Add(-time.Hour))
	f.known.Sale.ClosesAt = f.clock().Add(time.Minute).UnixMilli()
	users := f.crowd("w", 3)
	f.away = true
	f.live(time.Minute, users...)
	f.live(8 * time.Minute)
	require.Equal(t, users[1:], f.set("queue"))
	f.away = false
	f.setSale(line.OnSale, f.clock().Add(-time.Hour))
	f.live(2*time.Second, users...)
	require.Equal(t, users[1:], f.set("queue"))
}

// A line without a sale ends at the closing time in its settings.
func TestLineWithoutSaleEndsBySettings(t *testing.T) {
	f := setup(t, 1)
	f.apply(line.Settings{Threshold: ptr(1), ClosesAt: f.clock().Add(time.Minute)})
	users := f.crowd("w", 2)
	f.live(time.Minute, users...)
	f.live(time.Minute - 2*time.Second)
	require.Equal(t, users[1:], f.set("queue"))
	f.live(2 * time.Second)
	require.Empty(t, f.set("queue"))
}

// A visitor who was absent before the opening and returned in time is not late.
func TestNobodyIsLateBeforeGeneral(t *testing.T) {
	f := setup(t, 2)
	opens := f.clock().Add(time.Hour)
	f.setSale(line.Scheduled, opens)
	users := f.crowd("w", 4)
	f.live(11*time.Minute, users[1:]...)
	f.clean()
	require.Equal(t, users[:1], f.set("parked"))
	f.poll(users...)
	require.Equal(t, users, f.set("queue"), "with the old place")
	f.time.Set(opens.Add(-time.Second))
	f.poll(users...)
	f.live(time.Second, users...)
	require.Equal(t, users[:2], f.set("active"))
}
