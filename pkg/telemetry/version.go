package telemetry

import (
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// release is the release's version, which the linker sets:
// -ldflags=-X=urr.guru/pkg/telemetry.release=0.1.0.
var release string

// The version is a label, so that the replicas of each version can be counted during an upgrade.
var _ = promauto.NewGaugeFunc(prometheus.GaugeOpts{
	Name: "urr_build_info", Help: "Always 1; the label is the version of the program.", ConstLabels: prometheus.Labels{"version": Version()},
}, func() float64 { return 1 })

// Version returns the release and the revision of the source, as "0.1.0+4f0c1d2e3a5b", or only one
// of them if the other is not known, or "devel". The revision ends in "-dirty" if there were
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
