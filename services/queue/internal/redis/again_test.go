package redis_test

import (
	"math/rand/v2"

	"urr.guru/services/queue/internal/line"
	"urr.guru/services/queue/internal/redis"
)

// presentOldTickets has every visitor whose turn is over present the old ticket that pick returns
// (nil: none). After a loss of data, a visitor admitted in the last seconds before may get one more
// turn. No other place gives a second turn if the data that is left shows that it was used.
func (c *crowd) presentOldTickets(pick func(v *visitor) *line.Ticket) {
	c.t.Helper()
	var claims []line.PlaceClaim
	var visitors []*visitor
	for _, v := range c.visitors {
		if v.done && len(v.tickets) > 0 {
			if ticket := pick(v); ticket != nil {
				claims, visitors = append(claims, line.PlaceClaim{UserID: v.name, Ticket: ticket}), append(visitors, v)
			}
		}
	}
	for len(claims) > 0 {
		n := min(len(claims), 64)
		var out []line.ClaimOutcome
		c.call(func(store *redis.Store, m line.KnownState) (s line.LineState, err error) {
			s, out, err = store.Check(c.ctx(), c.event, m, claims[:n])
			return s, err
		})
		for i, o := range out {
			c.gotAgain(visitors[i], o)
		}
		claims, visitors = claims[n:], visitors[n:]
	}
}

func (c *crowd) gotAgain(v *visitor, o line.ClaimOutcome) {
	c.t.Helper()
	if o.State == line.NotInLine {
		return
	}
	if v.again++; v.again > c.losses {
		c.problem("%s had a turn and got another with an old ticket", v.name)
	}
	c.call(func(store *redis.Store, m line.KnownState) (line.LineState, error) {
		s, _, err := store.Release(c.ctx(), c.event, m, v.name, o.SlotID)
		return s, err
	})
}

func anyTicket(rng *rand.Rand) func(*visitor) *line.Ticket {
	return func(v *visitor) *line.Ticket { return v.tickets[rng.IntN(len(v.tickets))] }
}

// presentAllTickets presents every ticket that was ever issued.
func (c *crowd) presentAllTickets() {
	c.t.Helper()
	for k, more := 0, true; more; k++ {
		more = false
		c.presentOldTickets(func(v *visitor) *line.Ticket {
			if k >= len(v.tickets) {
				return nil
			}
			more = true
			return v.tickets[k]
		})
	}
}
