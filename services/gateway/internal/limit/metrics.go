package limit

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Who decided about a request that is counted over all gateways.
const (
	byPart    = "part"     // this process, by its part
	byRefusal = "refusal"  // this process: Redis has refused a key before
	byRedis   = "redis"    // Redis
	byProcess = "alone"    // this process, since Redis does not answer
	byReport  = "reported" // not a request but a report: it reached Redis
	byLoss    = "lost"     // a report that did not
)

var decisions = promauto.NewCounterVec(prometheus.CounterOpts{
	Name: "urr_limit_decisions_total",
	Help: "Checks of limits over all gateways by who decided (part, refusal, redis, alone), and reports of them (reported, lost).",
}, []string{"by"})

func countDecision(by string) { decisions.WithLabelValues(by).Inc() }
