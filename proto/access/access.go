// Package access says which service calls which, as the option urr.common.v1.access of every RPC
// declares it.
package access

import (
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"urr.guru/proto/events"
	_ "urr.guru/proto/gen/urr" // the services that Calls lists
	commonv1 "urr.guru/proto/gen/urr/common/v1"
)

// Calls returns the services that each service calls, by the caller's name. Both are sorted.
func Calls() map[string][]string {
	callees := map[string]map[string]bool{}
	protoregistry.GlobalFiles.RangeFiles(func(file protoreflect.FileDescriptor) bool {
		name, ours := strings.CutPrefix(string(file.Package()), "urr.")
		if !ours {
			return true
		}
		name, _, _ = strings.Cut(name, ".")
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				for _, caller := range callersOf(methods.Get(j)) {
					if callees[caller] == nil {
						callees[caller] = map[string]bool{}
					}
					for _, callee := range servedBy(name) {
						callees[caller][callee] = true
					}
				}
			}
		}
		return true
	})
	calls := map[string][]string{}
	for caller, names := range callees {
		calls[caller] = slices.Sorted(maps.Keys(names))
	}
	return calls
}

// servedBy returns the services that serve the RPCs of a package: the one of that name, or for
// kafka all services that consume topics.
func servedBy(name string) []string {
	if name != "kafka" {
		return []string{name}
	}
	var all []string
	for _, topic := range events.Topics() {
		all = append(all, events.Consumers(topic)...)
	}
	return all
}

// Callers returns the services that call callee, sorted; calls is the result of Calls.
func Callers(calls map[string][]string, callee string) []string {
	var callers []string
	for _, caller := range slices.Sorted(maps.Keys(calls)) {
		if slices.Contains(calls[caller], callee) {
			callers = append(callers, caller)
		}
	}
	return callers
}

func callersOf(method protoreflect.MethodDescriptor) []string {
	access, _ := proto.GetExtension(method.Options(), commonv1.E_Access).(*commonv1.Access)
	return access.GetCallers()
}
