package settings

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"urr.guru/proto/access"
	"urr.guru/scripts/internal/section"
)

// Service has a service's settings, callers and callees. They are read from its Config and from the
// access options of RPCs.
type Service struct {
	Name     string
	Settings []Setting
	Callers  []string        // sorted
	Calls    map[string]bool // the services that it calls; true: it also runs without that service
}

// Describe reads the Config of a service. It checks that this has an address for every service that
// this one calls, and no other. calls has, by service, the services that it calls.
func Describe(root, name string, calls map[string][]string) (Service, error) {
	all, err := Read(root, name)
	if err != nil {
		return Service{}, err
	}
	s := Service{Name: name, Settings: all, Callers: access.Callers(calls, name), Calls: map[string]bool{}}
	for _, v := range all {
		if addr, found := strings.CutSuffix(v.Name, "_ADDR"); found && v.IsPeer() {
			s.Calls[strings.ToLower(addr)] = !v.Required
		}
	}
	if peers := slices.Sorted(maps.Keys(s.Calls)); !slices.Equal(peers, calls[name]) {
		return Service{}, fmt.Errorf("the Config of %s has the peers %v, but RPCs have it as a caller in %v", name, peers, calls[name])
	}
	return s, nil
}

// IsPeer reports whether the variable is the address or key of a service that this service calls.
func (s Setting) IsPeer() bool { return s.Of == "pkg/rpc.Peer" || s.optionalPeer() }

func (s Setting) optionalPeer() bool { return s.Of == "pkg/rpc.OptionalPeer" }

// rpcBlock returns the block "rpc" for the values of the service's chart, as YAML text.
func (s Service) rpcBlock() string {
	if len(s.Callers)+len(s.Calls) == 0 {
		return "rpc: {}"
	}
	lines := []string{"rpc:"}
	if len(s.Callers) > 0 {
		lines = append(lines, fmt.Sprintf("  callers: [%s]", strings.Join(s.Callers, ", ")))
	}
	if len(s.Calls) > 0 {
		lines = append(lines, "  calls:")
	}
	for _, callee := range slices.Sorted(maps.Keys(s.Calls)) {
		optional := ""
		if s.Calls[callee] {
			optional = " # or none"
		}
		lines = append(lines, fmt.Sprintf("    %s: {address: \"\"}%s", callee, optional))
	}
	return strings.Join(lines, "\n")
}

// WriteRPC writes the block "rpc" into the values of the service's chart, which is in the folder
// charts.
func (s Service) WriteRPC(charts string) error {
	return section.WriteYAML(filepath.Join(charts, s.Name, "values.yaml"), "rpc", s.rpcBlock())
}
