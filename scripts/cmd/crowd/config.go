package main

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"urr.guru/scripts/crowd"
	"urr.guru/scripts/platform"
)

// Config is read from the environment, so that `make demo VISITORS=500 SEATS=100` works.
type Config struct {
	// Visitors come in all; Seats are on sale.
	Visitors int `env:"VISITORS, default=3000"`
	Seats    int `env:"SEATS, default=600"`
	// Threshold is how many may be inside at once; 0 takes a third of the seats.
	Threshold int `env:"THRESHOLD, default=0"`
	// Rate is how many positions tier 1 serves a second; 0 lets the crowd through in about 25 s.
	Rate int `env:"RATE, default=0"`
	// URL of the gateway; empty is the checkout's own.
	URL string `env:"URL"`
	// Arrive is how long the arrivals are spread over.
	Arrive time.Duration `env:"ARRIVE, default=20s"`
	// Limit ends a run that does not end by itself.
	Limit time.Duration `env:"LIMIT, default=4m"`
	// Seed makes the crowd repeatable; 0 takes the clock.
	Seed uint64 `env:"SEED, default=0"`
	// Stores of a platform that is not the checkout's own, for the audit; empty are the checkout's.
	TicketDatabase  string   `env:"TICKET_DATABASE_URL"`
	PaymentDatabase string   `env:"PAYMENT_DATABASE_URL"`
	RedisAddrs      []string `env:"REDIS_ADDRS"`
	SandboxURL      string   `env:"SANDBOX_URL"`
	// Break damages the stores before the audit, to show that it notices: oversold or paid_without_ticket.
	Break string `env:"BREAK"`
}

// Validate fills in what depends on other values.
func (c *Config) Validate() error {
	switch {
	case c.Visitors < 1 || c.Visitors > 100_000:
		return fmt.Errorf("VISITORS=%d: must be between 1 and 100000", c.Visitors)
	case c.Seats < 1 || c.Seats > 50_000:
		return fmt.Errorf("SEATS=%d: must be between 1 and 50000", c.Seats)
	case c.Threshold < 0 || c.Rate < 0:
		return errors.New("THRESHOLD and RATE: must not be negative")
	case c.Break != "" && c.Break != breakOversold && c.Break != breakUnticketed:
		return fmt.Errorf("BREAK=%q: must be %s or %s", c.Break, breakOversold, breakUnticketed)
	}
	if c.Threshold == 0 {
		c.Threshold = max(20, c.Seats/3)
	}
	if c.Rate == 0 {
		c.Rate = max(20, c.Visitors/25)
	}
	if c.Seed == 0 {
		c.Seed = uint64(time.Now().UnixNano())
	}
	return nil
}

// Hold and slot times of the demo's sale, seconds: what is abandoned is back while the crowd is there.
const (
	holdSeconds = 30
	slotSeconds = 30
)

// stores is where the audit reads.
func (c *Config) stores(w platform.Wiring) platform.Wiring {
	own := w.DatabaseURL
	w.DatabaseURL = func(s platform.Service) string {
		switch {
		case s.Name == platform.Ticket && c.TicketDatabase != "":
			return c.TicketDatabase
		case s.Name == platform.Payment && c.PaymentDatabase != "":
			return c.PaymentDatabase
		default:
			return own(s)
		}
	}
	if len(c.RedisAddrs) > 0 {
		w.RedisAddrs = c.RedisAddrs
	}
	w.SandboxURL = cmp.Or(c.SandboxURL, w.SandboxURL)
	return w
}

func (c *Config) sale() crowd.Sale {
	return crowd.Sale{
		EventID: "demo-" + time.Now().UTC().Format("20060102-150405"),
		Seats:   c.Seats, Threshold: c.Threshold, Rate: c.Rate, Hold: holdSeconds, Slot: slotSeconds,
	}
}
