package proof

import (
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Results of requests for a position by visitors who owe a proof of work. All but the first two are
// refusals.
const (
	resultSolved   = "solved"
	resultRepeated = "repeated" // an earlier request had the proof
	resultMissing  = "missing"
	resultInvalid  = "invalid" // forged, or of another event or visitor
	resultRound    = "round"   // of another round
	resultExpired  = "expired"
	resultEasy     = "easy" // too few zero bits
)

// Results of the captcha provider's test, besides solved, repeated, missing and invalid.
const (
	resultUntested    = "untested"    // the provider did not answer, and FailOpen is set
	resultUnavailable = "unavailable" // the provider did not answer
)

var (
	challenges = promauto.NewCounterVec(prometheus.CounterOpts{
		Name: "urr_proof_challenges_total", Help: "Challenges issued, by the bits of the proof of work that they ask for.",
	}, []string{"bits"})
	proofs = promauto.NewCounterVec(prometheus.CounterOpts{
		Name: "urr_proofs_total", Help: "Requests for a position of visitors who owe a proof of work, by result.",
	}, []string{"result"})
	tests = promauto.NewCounterVec(prometheus.CounterOpts{
		Name: "urr_captchas_total", Help: "Requests for a position where a challenge provider tests visitors, by result.",
	}, []string{"result"})
)

func countChallenge(bits int) { challenges.WithLabelValues(strconv.Itoa(bits)).Inc() }

func countResult(result string) { proofs.WithLabelValues(result).Inc() }

func countTest(result string) { tests.WithLabelValues(result).Inc() }
