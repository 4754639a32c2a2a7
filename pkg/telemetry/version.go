package telemetry

import (
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// release is set by the linker: -ldflags=-X=urr.guru/pkg/telemetry.release=0.1.0.
var release string

// The version is a label, so that the replicas of each version can be counted during an upgrade.
var _ = promauto.NewGaugeFunc(prometheus.GaugeOpts{
	Name: "urr_build_info", Help: "Always 1; the label is the version of the program.", ConstLabels: prometheus.Labels{"version": Version()},
}, func() float64 { return 1 })

// Version is the release and the revision the program was built from, as "0.1.0+4f0c1d2e3a5b", or
// one of them when only that is known, or "devel". The revision ends in "-dirty" when there were
// uncommitted changes.
func Version() string { return version(release, revision()) }

func version(release, revision string) string {
	switch {
	case release != "" && revision != "":
		return release + "+" + revision
	case release+revision == "":
		return "devel"
	default:
		return release + revision
	}
}

func revision() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	var commit, dirty string
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			commit = s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			dirty = "-dirty"
		}
	}
	if commit == "" {
		return ""
	}
	return commit + dirty
}
