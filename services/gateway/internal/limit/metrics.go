package limit

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Values of the metric's label: who decided about a request that is counted over all gateways.
const (
	byPart    = "part"     // this process may allow a part by itself
	byRefusal = "refusal"  // this process: Redis has refused a key before
	byRedis   = "redis"    // Redis
	byProcess = "alone"    // this process, since Redis does not answer
	byReport  = "reported" // no request: a report has reached Redis
	byLoss    = "lost"     // no request: a report was lost
)

var decisions = promauto.NewCounterVec(prometheus.CounterOpts{
	Name: "urr_limit_decisions_total",
	Help: "Checks of limits over all gateways by who decided (part, refusal, redis, alone), and reports of them (reported, lost).",
}, []string{"by"})

func countDecision(by string) { decisions.WithLabelValues(by).Inc() }
