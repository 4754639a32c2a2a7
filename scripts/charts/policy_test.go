package charts_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/charttest"
	"urr.guru/proto/access"
)

// policy has the fields of a NetworkPolicy or a Deployment that the test reads.
type policy struct {
	Kind     string
	Metadata struct{ Name string }
	Spec     struct {
		PodSelector selector `yaml:"podSelector"`
		PolicyTypes []string `yaml:"policyTypes"`
		Ingress     []rule
		Egress      []rule
		Template    struct {
			Metadata struct{ Labels map[string]string }
		}
	}
}

type selector struct {
	MatchLabels map[string]string `yaml:"matchLabels"`
}

func (s selector) selects(labels map[string]string) bool {
	for name, value := range s.MatchLabels {
		if labels[name] != value {
			return false
		}
	}
	return len(s.MatchLabels) > 0
}

type rule struct {
	Ports    []struct{ Port int }
	From, To []struct {
		PodSelector selector `yaml:"podSelector"`
	}
}

// allows reports whether the rules admit these pods at the port. A rule without peers admits all
// pods, like the rules for the ports of backends.
func allows(rules []rule, port int, labels map[string]string) bool {
	return slices.ContainsFunc(rules, func(r rule) bool {
		if len(r.Ports) > 0 && !slices.ContainsFunc(r.Ports, func(p struct{ Port int }) bool { return p.Port == port }) {
			return false
		}
		peers := append(slices.Clone(r.From), r.To...)
		for _, peer := range peers {
			if peer.PodSelector.selects(labels) {
				return true
			}
		}
		return len(peers) == 0
	})
}

const grpcPort, opsPort = 9000, 9001

// policies renders a chart. It returns, by name, its NetworkPolicies and the labels of its pods.
func (b fixture) policies(t *testing.T, release, chart string, args ...string) (policies map[string]policy, labels map[string]map[string]string) {
	t.Helper()
	policies, labels = map[string]policy{}, map[string]map[string]string{}
	out := b.run(t, nil, "helm", append([]string{"template", release, b.charts(chart)}, args...)...)
	for _, o := range charttest.Decode[policy](t, out) {
		switch o.Kind {
		case "NetworkPolicy":
			require.Equal(t, []string{"Ingress", "Egress"}, o.Spec.PolicyTypes)
			policies[o.Metadata.Name] = o
		case "Deployment", "Job":
			labels[o.Metadata.Name] = o.Spec.Template.Metadata.Labels
		}
	}
	return policies, labels
}

// Policies admit exactly the calls between services that the platform declares. The test evaluates
// the policies itself, since a cluster's network may not enforce them.
func TestPoliciesAllowTheDeclaredPairs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	policies, labels := b.policies(t, "urr", "urr", b.umbrellaArgs()...)
	for name, podLabels := range labels {
		require.True(t, policies[name].Spec.PodSelector.selects(podLabels), "the policy of %s is not for its pods", name)
		require.False(t, allows(policies[name].Spec.Ingress, opsPort, labels["urr-gateway"]), "who may see the metrics of %s", name)
	}
	for _, from := range services() {
		for _, to := range services() {
			caller, callee := "urr-"+from.Name, "urr-"+to.Name
			declared := slices.Contains(from.Calls, to.Name)
			require.Equal(t, declared, allows(policies[caller].Spec.Egress, grpcPort, labels[callee]), "%s may call %s", from.Name, to.Name)
			require.Equal(t, declared, allows(policies[callee].Spec.Ingress, grpcPort, labels[caller]), "%s lets %s in", to.Name, from.Name)
			require.False(t, allows(policies[callee].Spec.Ingress, grpcPort, labels[caller+"-migrate"]), "migrations call nobody")
		}
	}
	const room = "urr-gateway-room"
	require.Contains(t, labels, room)
	for _, to := range services() {
		declared := slices.Contains(access.Calls()["room"], to.Name)
		require.Equal(t, declared, allows(policies[room].Spec.Egress, grpcPort, labels["urr-"+to.Name]), "the room may call %s", to.Name)
		require.Equal(t, declared, allows(policies["urr-"+to.Name].Spec.Ingress, grpcPort, labels[room]), "%s lets the room in", to.Name)
	}
}

// The policies of charts that are installed alone also admit exactly the declared calls.
func TestPoliciesOfChartsAloneAllowTheDeclaredPairs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	policies, labels := map[string]policy{}, map[string]map[string]string{}
	for _, s := range services() {
		args := append(serviceArgs(s), "--set", "networkPolicy.backends={10.1.0.0/16}")
		p, l := b.policies(t, s.Name, s.Name, args...)
		maps.Copy(policies, p)
		maps.Copy(labels, l)
	}
	for _, from := range services() {
		for _, to := range services() {
			declared := slices.Contains(from.Calls, to.Name)
			require.Equal(t, declared, allows(policies[from.Name].Spec.Egress, grpcPort, labels[to.Name]), "%s may call %s", from.Name, to.Name)
			require.Equal(t, declared, allows(policies[to.Name].Spec.Ingress, grpcPort, labels[from.Name]), "%s lets %s in", to.Name, from.Name)
			require.False(t, allows(policies[to.Name].Spec.Ingress, grpcPort, labels[from.Name+"-migrate"]), "migrations call nobody")
		}
	}
}
