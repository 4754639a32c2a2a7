package rpc

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"urr.guru/services/ingest/internal/request"
)

var answered = promauto.NewCounterVec(prometheus.CounterOpts{
	Name: "urr_applications_total", Help: "Applications by their answer: the status of the request, duplicate, or the reason of a refusal.",
}, []string{"answer"})

func outcomeLabel(a request.ApplyResult) string {
	if a.Duplicate {
		return "duplicate"
	}
	return string(a.Request.Status)
}
