package sale

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"urr.guru/pkg/proofofwork"
	"urr.guru/scripts/audit"
	"urr.guru/scripts/crowd"
	"urr.guru/scripts/demo"
	"urr.guru/scripts/platform"
)

// Config is read from environment variables, so that `make demo VISITORS=500 SEATS=100` works.
type Config struct {
	// Visitors is the number of simulated visitors, and Seats the number of seats on sale.
	Visitors int `env:"VISITORS, default=3000"`
	Seats    int `env:"SEATS, default=600"`
	// Threshold is the maximum number of visitors in the shop; 0 means a third of the seats.
	Threshold int `env:"THRESHOLD, default=0"`
	// Rate is how many positions tier 1 serves per second; 0: enough to serve all in about 25 s.
	Rate int `env:"RATE, default=0"`
	// Proof is the difficulty of the proof of work for tier 1, in leading zero bits; 0: none.
	Proof int `env:"PROOF, default=0"`
	// Thieves is the number of thieves who buy and give back, and of pairs of thieves who hold places
	// in turn; 0: none.
	Thieves int `env:"THIEVES, default=2"`
	// URL is the gateway's URL; empty means the checkout's own gateway.
	URL string `env:"URL"`
	// Arrive is the period in which the visitors arrive.
	Arrive time.Duration `env:"ARRIVE, default=20s"`
	// Limit ends a run that takes longer.
	Limit time.Duration `env:"LIMIT, default=4m"`
	// AwayLimit is how long the audit waits for a store that is unavailable, for example restarting.
	AwayLimit time.Duration `env:"AWAY_LIMIT, default=3m"`
	// Seed determines what the visitors do; 0 takes a seed from the clock.
	Seed uint64 `env:"SEED, default=0"`
	// The addresses of the stores of the platform at URL, for the audit: all of them, or none. Without
	// them, the run is judged by what the visitors saw.
	TicketDatabase  string   `env:"TICKET_DATABASE_URL"`
	PaymentDatabase string   `env:"PAYMENT_DATABASE_URL"`
	StatsDatabase   string   `env:"STATS_DATABASE_URL"`
	RedisAddrs      []string `env:"REDIS_ADDRS"`
	KafkaBrokers    []string `env:"KAFKA_BROKERS"`
	SandboxURL      string   `env:"SANDBOX_URL"`
	// Break injects a fault into the stores before the audit, to show that the audit detects it:
	// oversold, paid_without_ticket, unbalanced, presale_in or opened_after_refund.
	Break string `env:"BREAK"`
}

// Validate sets the defaults that depend on other values.
func (c *Config) Validate() error {
	switch {
	case c.Visitors < 1 || c.Visitors > 100_000:
		return fmt.Errorf("VISITORS=%d: must be between 1 and 100000", c.Visitors)
	case c.Seats < 1 || c.Seats > 50_000:
		return fmt.Errorf("SEATS=%d: must be between 1 and 50000", c.Seats)
	case c.AwayLimit < 0:
		return fmt.Errorf("AWAY_LIMIT=%s: must not be negative", c.AwayLimit)
	case c.Proof < 0 || c.Proof > proofofwork.MaxBits:
		return fmt.Errorf("PROOF=%d: must be between 0 and %d", c.Proof, proofofwork.MaxBits)
	case c.Thieves < 0 || c.Thieves > maxThieves:
		return fmt.Errorf("THIEVES=%d: must be between 0 and %d", c.Thieves, maxThieves)
	case c.Threshold < 0 || c.Rate < 0:
		return errors.New("THRESHOLD and RATE: must not be negative")
	}
	if err := demo.CheckFaultKind(c.Break, audit.SaleFaultKinds()); err != nil {
		return err
	}
	if err := c.validateStores(); err != nil {
		return err
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

// maxThieves is so low that thieves leave slots to others.
const maxThieves = 20

// How long holds and slots last, in seconds. It is short, so that others can have abandoned seats
// while the crowd is there.
const (
	holdSeconds = 30
	slotSeconds = 30
)

// validateStores returns an error if there are store addresses without a URL, or only some of them.
func (c *Config) validateStores() error {
	var named, missing []string
	for _, v := range []struct{ name, value string }{
		{"TICKET_DATABASE_URL", c.TicketDatabase}, {"PAYMENT_DATABASE_URL", c.PaymentDatabase}, {"STATS_DATABASE_URL", c.StatsDatabase},
		{"REDIS_ADDRS", strings.Join(c.RedisAddrs, ",")}, {"KAFKA_BROKERS", strings.Join(c.KafkaBrokers, ",")}, {"SANDBOX_URL", c.SandboxURL},
	} {
		if v.value == "" {
			missing = append(missing, v.name)
		} else {
			named = append(named, v.name)
		}
	}
	switch {
	case len(named) == 0 && c.URL != "" && c.Break != "":
		return fmt.Errorf("BREAK=%q: there is no damaging stores that are not named", c.Break)
	case len(named) == 0:
		return nil
	case c.URL == "":
		return fmt.Errorf("%s: the checkout's own stores are known; they go with URL", strings.Join(named, ", "))
	case len(missing) > 0:
		return fmt.Errorf("%s: missing beside %s; name all the stores of %s, or none", strings.Join(missing, ", "), strings.Join(named, ", "), c.URL)
	}
	return nil
}

// withoutStores reports whether the run is judged without access to the stores.
func (c *Config) withoutStores() bool { return c.URL != "" && c.TicketDatabase == "" }

// storesWiring returns the addresses of the stores to audit: those in w, unless a URL is set.
func (c *Config) storesWiring(w platform.Wiring) platform.Wiring {
	if c.URL == "" {
		return w
	}
	databases := map[string]string{platform.Ticket: c.TicketDatabase, platform.Payment: c.PaymentDatabase, platform.Stats: c.StatsDatabase}
	w.DatabaseURL = func(s platform.Service) string { return databases[s.Name] }
	w.RedisAddrs, w.KafkaBrokers, w.SandboxURL = c.RedisAddrs, c.KafkaBrokers, strings.TrimRight(c.SandboxURL, "/")
	return w
}

func (c *Config) sale() crowd.Sale {
	return crowd.Sale{
		// The seed makes the ids of runs differ that start in the same second.
		EventID: fmt.Sprintf("demo-%s-%04x", time.Now().UTC().Format("20060102-150405"), uint16(c.Seed)),
		Seats:   c.Seats, Threshold: c.Threshold, Rate: c.Rate, Proof: c.Proof, Hold: holdSeconds, Slot: slotSeconds,
	}
}
