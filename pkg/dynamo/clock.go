package dynamo

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"urr.guru/pkg/telemetry"
)

// skewWindow is how long responses are combined into one estimate of the clock skew. It is short,
// so that a corrected clock shows soon.
const skewWindow = 30 * time.Second

//nolint:gochecknoglobals // metrics are registered once per process
var (
	clockSkew = telemetry.Gauge("urr_store_clock_skew_seconds",
		"This process's clock less that of DynamoDB, by the header Date of its responses, at least; 0 while they may agree.").WithLabelValues()
	processSkew = &skewEstimate{}
)

// maxSkew is the largest error tolerated of clocks that decide what is accepted or public.
const maxSkew = 2 * time.Second

// ClockSkew returns by how much the clock of this process is ahead of DynamoDB's (behind:
// negative), at least, as the latest responses show. It is 0 up to a skew of 2 s.
func ClockSkew() time.Duration {
	if s := processSkew.latest(); s.Abs() > maxSkew {
		return s
	}
	return 0
}

func watchClock(s *middleware.Stack) error {
	return s.Deserialize.Add(middleware.DeserializeMiddlewareFunc("watch clock", //nolint:wrapcheck // never fails
		func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (
			middleware.DeserializeOutput, middleware.Metadata, error,
		) {
			sent := time.Now()
			out, meta, err := next.HandleDeserialize(ctx, in)
			if answer, ok := out.RawResponse.(*smithyhttp.Response); ok && answer != nil {
				if date, bad := http.ParseTime(answer.Header.Get("Date")); bad == nil {
					clockSkew.Set(processSkew.addResponse(sent, time.Now(), date).Seconds())
				}
			}
			return out, meta, err //nolint:wrapcheck // the call's own
		}), middleware.After)
}

// skewEstimate bounds how far this process's clock is ahead of DynamoDB's: at least by sent − Date
// − 1 s, since the header Date has whole seconds, and at most by received − Date. Many responses
// together leave an interval not longer than the shortest call.
type skewEstimate struct {
	mu          sync.Mutex
	since       time.Time
	least, most time.Duration
}

// addResponse adds the times of one response. It returns the smallest skew, ahead or behind, that
// explains all responses of the window.
func (s *skewEstimate) addResponse(sent, received, date time.Time) time.Duration {
	// Removes the monotonic readings, since wall clocks are compared.
	sent, received = sent.Round(0), received.Round(0)
	least, most := sent.Sub(date)-time.Second, received.Sub(date)
	s.mu.Lock()
	defer s.mu.Unlock()
	least, most = min(least, most), max(least, most) // the clock was set during the call
	narrowed, widest := max(least, s.least), min(most, s.most)
	if s.since.IsZero() || received.Sub(s.since).Abs() > skewWindow || narrowed > widest { // one of the clocks was set
		s.since, narrowed, widest = received, least, most
	}
	s.least, s.most = narrowed, widest
	return s.smallest()
}

// latest returns the result of the latest addResponse.
func (s *skewEstimate) latest() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.smallest()
}

func (s *skewEstimate) smallest() time.Duration {
	switch {
	case s.least > 0:
		return s.least
	case s.most < 0:
		return s.most
	default:
		return 0
	}
}
