package rpc

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"

	commonv1 "urr.guru/proto/gen/urr/common/v1"
)

// isPublic reports whether anyone may call a service: health and reflection, which probes and tools
// call without a signature and which reveal no secrets.
func isPublic(service string) bool {
	return service == "grpc.health.v1.Health" || strings.HasPrefix(service, "grpc.reflection.")
}

// allowedCallers returns, for each method of a service, the services that may call it. They are
// listed in the method's option urr.common.v1.access.
func allowedCallers(desc *grpc.ServiceDesc) (map[string][]string, error) {
	methods := make(map[string][]string)
	sd, err := serviceDescriptor(desc.ServiceName)
	if err != nil {
		return nil, err
	}
	for i := range sd.Methods().Len() {
		md := sd.Methods().Get(i)
		full := "/" + desc.ServiceName + "/" + string(md.Name())
		callers := accessOption(md)
		if len(callers) == 0 {
			return nil, fmt.Errorf("rpc: %s does not declare who may call it (option urr.common.v1.access)", full)
		}
		methods[full] = callers
	}
	for _, m := range desc.Methods {
		if _, ok := methods["/"+desc.ServiceName+"/"+m.MethodName]; !ok {
			return nil, fmt.Errorf("rpc: %s/%s is registered but not in the descriptor", desc.ServiceName, m.MethodName)
		}
	}
	return methods, nil
}

func serviceDescriptor(name string) (protoreflect.ServiceDescriptor, error) {
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
	sd, ok := d.(protoreflect.ServiceDescriptor)
	if !ok {
		return nil, fmt.Errorf("rpc: %s is not a service: %w", name, cmp.Or(err, protoregistry.NotFound))
	}
	return sd, nil
}

func accessOption(md protoreflect.MethodDescriptor) []string {
	access, _ := proto.GetExtension(md.Options(), commonv1.E_Access).(*commonv1.Access)
	return access.GetCallers()
}

// isIdempotent reports whether repeating the method is harmless (option idempotency_level).
func isIdempotent(md protoreflect.MethodDescriptor) bool {
	opts, ok := md.Options().(*descriptorpb.MethodOptions)
	return ok && slices.Contains([]descriptorpb.MethodOptions_IdempotencyLevel{
		descriptorpb.MethodOptions_NO_SIDE_EFFECTS, descriptorpb.MethodOptions_IDEMPOTENT,
	}, opts.GetIdempotencyLevel())
}
