package edge

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/emptypb"

	commonv1 "urr.guru/proto/gen/urr/common/v1"
)

// RouteDetails are the properties of a pass-through route that an HTTP rule cannot express. Its
// fields mean the same as those of Route.
type RouteDetails struct {
	Status             int
	Costly             bool
	Timeout            time.Duration
	Headers            []Header
	ServedWithoutKafka bool
	Irreversible       func(body []byte) bool
	// Personal has an effect only on routes of operators.
	Personal bool
}

// FromService returns the pass-through routes of a gRPC service, from the google.api.http rules of
// its methods, their option urr.common.v1.edge, and details, by full method name. A method with a
// rule but without the option is an error, since nothing says who may call it.
func FromService(sd protoreflect.ServiceDescriptor, details map[string]RouteDetails, handler Handler) ([]*Route, error) {
	var routes []*Route
	for i := range sd.Methods().Len() {
		md := sd.Methods().Get(i)
		rule, _ := proto.GetExtension(md.Options(), annotations.E_Http).(*annotations.HttpRule)
		if rule == nil || rule.GetPattern() == nil {
			continue
		}
		if !proto.HasExtension(md.Options(), commonv1.E_Edge) {
			return nil, fmt.Errorf("%s has an HTTP rule but does not say who may use it (option urr.common.v1.edge)", md.FullName())
		}
		edgeOption, _ := proto.GetExtension(md.Options(), commonv1.E_Edge).(*commonv1.Edge)
		for n, binding := range append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...) {
			r, err := fromRule(md, binding, edgeOption, details[fullMethod(md)])
			if err != nil {
				return nil, err
			}
			r.Handler = handler
			if n > 0 {
				r.ID = fmt.Sprintf("%s.%d", r.ID, n)
			}
			routes = append(routes, r)
		}
	}
	return routes, nil
}

func fromRule(md protoreflect.MethodDescriptor, rule *annotations.HttpRule, edgeOption *commonv1.Edge, details RouteDetails) (*Route, error) {
	r := &Route{
		ID:     string(md.Parent().Name()) + "." + string(md.Name()),
		Access: Access(edgeOption.GetWho()),
		Event:  EventSource(edgeOption.GetEvent()),
		RPC:    fullMethod(md),
	}
	switch p := rule.GetPattern().(type) {
	case *annotations.HttpRule_Get:
		r.Method, r.Pattern = http.MethodGet, p.Get
	case *annotations.HttpRule_Post:
		r.Method, r.Pattern = http.MethodPost, p.Post
	case *annotations.HttpRule_Put:
		r.Method, r.Pattern = http.MethodPut, p.Put
	case *annotations.HttpRule_Delete:
		r.Method, r.Pattern = http.MethodDelete, p.Delete
	default:
		return nil, fmt.Errorf("%s: HTTP rule of an unknown kind", md.FullName())
	}
	switch rule.GetBody() {
	case "":
	case "*", specMember:
		r.Body.JSON = true
	default:
		return nil, fmt.Errorf("%s: the body is %q, neither the whole request nor its %q", md.FullName(), rule.GetBody(), specMember)
	}
	if strings.HasPrefix(r.Pattern, operatorPrefix) { // the operators' route of a method that users call too
		r.Access = Admin
	}
	r.Status, r.Timeout = cmp.Or(details.Status, successStatus(md)), details.Timeout
	r.Costly = details.Costly
	r.Headers, r.ServedWithoutKafka, r.Irreversible, r.Personal = details.Headers, details.ServedWithoutKafka, details.Irreversible, details.Personal
	return r, nil
}

// Input returns the request message of the RPC of a pass-through route; nil for a hand-written one.
func (r *Route) Input() protoreflect.MessageDescriptor {
	name := strings.ReplaceAll(strings.TrimPrefix(r.RPC, "/"), "/", ".")
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		return nil
	}
	m, ok := d.(protoreflect.MethodDescriptor)
	if !ok {
		return nil
	}
	return m.Input()
}

// specMember is the only field of a request message that can be the body instead of the whole
// message. pkg/rpc.Validate removes its name from the paths of invalid fields.
const specMember = "spec"

// operatorPrefix is the prefix of the paths that only operators may call.
const operatorPrefix = "/api/v1/admin/"

func fullMethod(md protoreflect.MethodDescriptor) string {
	return fmt.Sprintf("/%s/%s", md.Parent().FullName(), md.Name())
}

func successStatus(md protoreflect.MethodDescriptor) int {
	if md.Output().FullName() == (&emptypb.Empty{}).ProtoReflect().Descriptor().FullName() {
		return http.StatusNoContent
	}
	return http.StatusOK
}
