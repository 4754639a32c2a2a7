package redis_test

import (
	"math/rand/v2"

	"urr.guru/services/queue/internal/line"
	"urr.guru/services/queue/internal/redis"
)

// again lets everybody who had their turn show a ticket that they kept; pick chooses it, nil for
// none. Who was admitted in the last seconds before data was lost may have one more turn for each
// loss. Places that were used in data which survived are nobody's again.
func (c *crowd) again(pick func(v *visitor) *line.Ticket) {
	c.t.Helper()
	var claims []line.Claim
	var who []*visitor
	for _, v := range c.visitors {
		if v.done && len(v.tickets) > 0 {
			if ticket := pick(v); ticket != nil {
				claims, who = append(claims, line.Claim{UserID: v.name, Ticket: ticket}), append(who, v)
			}
		}
	}
	for len(claims) > 0 {
		n := min(len(claims), 64)
		var out []line.Outcome
		c.call(func(store *redis.Store, m line.KnownState) (s line.State, err error) {
			s, out, err = store.Check(c.ctx(), c.event, m, claims[:n])
			return s, err
		})
		for i, o := range out {
			c.gotAgain(who[i], o)
		}
		claims, who = claims[n:], who[n:]
	}
}

func (c *crowd) gotAgain(v *visitor, o line.Outcome) {
	c.t.Helper()
	if o.Standing == line.Nowhere {
		return
	}
	if v.again++; v.again > c.losses {
		c.problem("%s had a turn and got another with an old ticket", v.name)
	}
	c.call(func(store *redis.Store, m line.KnownState) (line.State, error) {
		s, _, err := store.Release(c.ctx(), c.event, m, v.name, o.SlotID)
		return s, err
	})
}

func anyTicket(rng *rand.Rand) func(*visitor) *line.Ticket {
	return func(v *visitor) *line.Ticket { return v.tickets[rng.IntN(len(v.tickets))] }
}

// tryAll shows every ticket that anybody ever had.
func (c *crowd) tryAll() {
	c.t.Helper()
	for k, more := 0, true; more; k++ {
		more = false
		c.again(func(v *visitor) *line.Ticket {
			if k >= len(v.tickets) {
				return nil
			}
			more = true
			return v.tickets[k]
		})
	}
}
