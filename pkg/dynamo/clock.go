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

// skewWindow is the time for which responses are combined into one estimate of the clock skew. It
// is short, so that the estimate soon follows when a clock is corrected.
const skewWindow = 30 * time.Second

//nolint:gochecknoglobals // metrics are registered once per process
var (
	clockSkew = telemetry.Gauge("urr_store_clock_skew_seconds",
		"This process's clock less that of DynamoDB, by the header Date of its responses, at least; 0 while they may agree.").WithLabelValues()
	processSkew = &skewEstimate{}
)

// maxSkew is the largest clock skew that is tolerated. A wrong clock does harm, since processes
// decide by their clocks until when requests are accepted and from when data is public.
const maxSkew = 2 * time.Second

// ClockSkew returns by how much, at least, the clock of this process is ahead of DynamoDB's clock
// according to the latest responses. It is negative if the clock is behind, and 0 if the skew is at
// most 2 s.
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

// skewEstimate is an interval for how far this process's clock is ahead of DynamoDB's. One response
// shows that it is at least sent − Date − 1 s, since the header Date has whole seconds, and at
// most received − Date. With many responses the interval becomes as short as the shortest call.
type skewEstimate struct {
	mu          sync.Mutex
	since       time.Time
	least, most time.Duration
}

// addResponse adds the times of one response. It returns the smallest skew, ahead or behind, that
// explains all responses of the window.
func (s *skewEstimate) addResponse(sent, received, date time.Time) time.Duration {
	// Round(0) removes the monotonic readings, since wall clocks are compared.
	sent, received = sent.Round(0), received.Round(0)
	least, most := sent.Sub(date)-time.Second, received.Sub(date)
	s.mu.Lock()
	defer s.mu.Unlock()
	least, most = min(least, most), max(least, most) // swapped if the clock was set during the call
	low, high := max(least, s.least), min(most, s.most)
	if s.since.IsZero() || received.Sub(s.since).Abs() > skewWindow || low > high { // a clock was set
		s.since, low, high = received, least, most
	}
	s.least, s.most = low, high
	return s.smallestSkew()
}

// latest returns the result of the latest addResponse.
func (s *skewEstimate) latest() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.smallestSkew()
}

func (s *skewEstimate) smallestSkew() time.Duration {
	switch {
	case s.least > 0:
		return s.least
	case s.most < 0:
		return s.most
	default:
		return 0
	}
}
