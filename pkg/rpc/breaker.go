package rpc

import (
	"time"

	"github.com/sony/gobreaker/v2"

	"urr.guru/pkg/errs"
)

// breakerPause is how long an open breaker refuses all calls before it lets one through.
const breakerPause = 2 * time.Second

// WithBreaker adds a circuit breaker: calls fail at once while at least 10 calls, and at least half
// of all, have ended with UNAVAILABLE, DEADLINE or INTERNAL within 10 s. It is for calls that
// visitors do not depend on.
func WithBreaker() DialOption {
	return func(c *dialConfig) {
		c.breaker = gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{
			MaxRequests: 1, Interval: 10 * time.Second, Timeout: breakerPause,
			ReadyToTrip: func(n gobreaker.Counts) bool {
				return n.TotalFailures >= 10 && n.TotalFailures*2 >= n.Requests
			},
		})
	}
}

// allowCall asks the breaker, if there is one; done must be called with the result of the call.
func (c *callInterceptor) allowCall() (done func(*errs.Error), refused *errs.Error) {
	if c.cfg.breaker == nil {
		return func(*errs.Error) {}, nil
	}
	report, err := c.cfg.breaker.Allow()
	if err != nil {
		return nil, errs.ErrUnavailable.Wrap(err).WithRetry(breakerPause)
	}
	return func(e *errs.Error) {
		if e == nil || e.Kind.CausedByClient() {
			report(nil)
			return
		}
		report(e)
	}, nil
}
