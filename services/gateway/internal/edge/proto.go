package edge

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/emptypb"

	commonv1 "urr.guru/proto/gen/urr/common/v1"
)

// FromService returns the pass-through routes of a gRPC service, from the google.api.http rules of
// its methods and their option urr.common.v1.edge. A binding without the option is an error, since
// nothing says who may call it.
func FromService(sd protoreflect.ServiceDescriptor, handler Handler) ([]*Route, error) {
	var routes []*Route
	for i := range sd.Methods().Len() {
		md := sd.Methods().Get(i)
		rule, _ := proto.GetExtension(md.Options(), annotations.E_Http).(*annotations.HttpRule)
		if rule == nil || rule.GetPattern() == nil {
			continue
		}
		option, _ := proto.GetExtension(md.Options(), commonv1.E_Edge).(*commonv1.Edge)
		bindings := append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...)
		options := append([]*commonv1.Edge{option}, option.GetAdditional()...)
		if option == nil || len(bindings) != len(options) {
			return nil, fmt.Errorf("%s has an HTTP rule but does not say who may use each of its bindings (option urr.common.v1.edge)", md.FullName())
		}
		for n, binding := range bindings {
			r, err := fromRule(md, binding, options[n])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", md.FullName(), err)
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

func fromRule(md protoreflect.MethodDescriptor, rule *annotations.HttpRule, option *commonv1.Edge) (*Route, error) {
	r := &Route{
		ID:     string(md.Parent().Name()) + "." + string(md.Name()),
		Access: Access(option.GetWho()), Event: EventSource(option.GetEvent()), RPC: fullMethod(md),
		Status: cmp.Or(int(option.GetStatus()), successStatus(md)), Timeout: option.GetTimeout().AsDuration(), Costly: option.GetCostly(),
		ServedWithoutKafka: option.GetServedWithoutKafka(), Personal: option.Personal,
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
		return nil, errors.New("HTTP rule of an unknown kind")
	}
	switch rule.GetBody() {
	case "":
	case "*", specMember:
		r.Body.JSON = true
	default:
		return nil, fmt.Errorf("the body is %q, neither the whole request nor its %q", rule.GetBody(), specMember)
	}
	switch option.GetIdempotencyKey() {
	case "":
	case "optional":
		r.Headers = append(r.Headers, IdempotencyKey)
	case "required":
		r.Headers = append(r.Headers, RequiredKey)
	default:
		return nil, fmt.Errorf(`idempotency_key is %q, neither "optional" nor "required"`, option.GetIdempotencyKey())
	}
	if option.GetIfMatch() {
		r.Headers = append(r.Headers, IfMatch)
	}
	if strings.HasPrefix(r.Pattern, operatorPrefix) && r.Access != Admin {
		return nil, fmt.Errorf("%q may call %s, which is for operators", r.Access, r.Pattern)
	}
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
