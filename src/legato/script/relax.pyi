# Written by tools/script_stubs.py: change the module, then run that again.
# fmt: off
# ruff: noqa
import typing as _t

class Any:
    def __new__(cls, *args: _t.Any, **named: _t.Any) -> _t.Any: ...
def Callable(params: _t.Any = ..., ret: _t.Any = ..., purity: _t.Any = ..., *, type_params: _t.Any = ...) -> _t.Any:
    r"""A function; without parameters, any. type_params: dims by name and type variables that each of its calls has anew. (Purity is inferred.)"""
def Data(name: _t.Any, args: _t.Any = ...) -> _t.Any:
    r"""A data type of the module, applied to types where it takes some."""
class Object:
    def __new__(cls, *args: _t.Any, **named: _t.Any) -> _t.Any: ...
def Prim(dtype: _t.Any = ..., value: _t.Any = ...) -> _t.Any:
    r"""A scalar."""
def Ref(value: _t.Any) -> _t.Any:
    r"""A cell that holds a `value`."""
def Shape(values: _t.Any = ..., ndim: _t.Any = ...) -> _t.Any:
    r"""A shape as a value."""
def Tensor(shape: _t.Any = ..., dtype: _t.Any = ..., ndim: _t.Any = ..., **odd: _t.Any) -> _t.Any:
    r"""A tensor: `R.Tensor(("n", 4), "float32")`, `R.Tensor("float32", ndim=2)`; without a dtype, inferred."""
def Tuple(*fields: _t.Any) -> _t.Any:
    r"""A tuple."""
def TypeVar(name: _t.Any, kind: _t.Any = ...) -> _t.Any:
    r"""A type variable of the function, or of the data type."""
def abs(data: _t.Any, /) -> _t.Any:
    r"""|x|; the most negative integer stays itself."""
def acos(data: _t.Any, /) -> _t.Any:
    r"""Arc cosine; NaN outside [-1, 1]."""
def acosh(data: _t.Any, /) -> _t.Any:
    r"""Inverse hyperbolic cosine; NaN below 1."""
def add(lhs: _t.Any, rhs: _t.Any, /) -> _t.Any:
    r"""a + b."""
def arange(start: _t.Any, end: _t.Any = ..., step: _t.Any = ..., dtype: _t.Any = ...) -> _t.Any:
    r"""Numbers at equal distances."""
def argmax(x: _t.Any, axis: _t.Any = ..., keepdims: _t.Any = ...) -> _t.Any: ...
def argmin(x: _t.Any, axis: _t.Any = ..., keepdims: _t.Any = ...) -> _t.Any: ...
def argsort(data: _t.Any, axis: _t.Any = ..., descending: _t.Any = ..., dtype: _t.Any = ...) -> _t.Any:
    r"""The subscripts that sort data along `axis`; of equal elements the one with the lower subscript comes first."""
def array(data: _t.Any, shape: _t.Any = ..., dtype: _t.Any = ...) -> _t.Any:
    r"""An array: the one of a constant, or that of the bytes that a text has in base 64."""
def asin(data: _t.Any, /) -> _t.Any:
    r"""Arc sine; NaN outside [-1, 1]."""
def asinh(data: _t.Any, /) -> _t.Any:
    r"""Inverse hyperbolic sine."""
def assert_op(condition: _t.Any, *values: _t.Any, format: _t.Any = ...) -> _t.Any:
    r"""Ends the program, with a message that shows values, unless the condition holds."""
def astype(x: _t.Any, dtype: _t.Any) -> _t.Any: ...
def atan(data: _t.Any, /) -> _t.Any:
    r"""Arc tangent."""
def atanh(data: _t.Any, /) -> _t.Any:
    r"""Inverse hyperbolic tangent; NaN outside [-1, 1]."""
def bitwise_and(lhs: _t.Any, rhs: _t.Any, /) -> _t.Any:
    r"""Bitwise and."""
def bitwise_not(data: _t.Any, /) -> _t.Any:
    r"""All bits flipped; the negation of a bool."""
def bitwise_or(lhs: _t.Any, rhs: _t.Any, /) -> _t.Any:
    r"""Bitwise or."""
def bitwise_xor(lhs: _t.Any, rhs: _t.Any, /) -> _t.Any:
    r"""Bitwise exclusive or."""
def broadcast_to(x: _t.Any, shape: _t.Any) -> _t.Any:
    r"""Repeats dims of extent 1, and in front, until the shape is reached."""
def bucketize(input_tensor: _t.Any, boundaries: _t.Any, out_int32: _t.Any = ..., right: _t.Any = ...) -> _t.Any:
    r"""How many of the ascending boundaries are less than each element, or at most as large."""
def call_dps_packed(func: _t.Any, args: _t.Any, out_sinfo: _t.Any = ..., *, out_ty: _t.Any = ...) -> _t.Any:
    r"""The same of a function that fills tensors of types `out_sinfo`, which it is given behind its arguments."""
def call_packed(func: _t.Any, *args: _t.Any, sinfo_args: _t.Any = ..., ty_args: _t.Any = ...) -> _t.Any:
    r"""The call of the packed function `func`, which may have effects; it gives tensors of types `sinfo_args`."""
def call_pure_packed(func: _t.Any, *args: _t.Any, sinfo_args: _t.Any = ..., ty_args: _t.Any = ...) -> _t.Any:
    r"""The same of a function without effects."""
def call_tir(kernel: _t.Any, args: _t.Any, out_sinfo: _t.Any = ..., tir_vars: _t.Any = ..., *, out_ty: _t.Any = ..., operators: _t.Any = ...) -> _t.Any:
    r"""The call of `kernel` on the tensors `args`; outputs of type `out_sinfo` are allocated, and are its result."""
def call_tir_inplace(kernel: _t.Any, args: _t.Any, inplace_indices: _t.Any, out_sinfo: _t.Any = ..., tir_vars: _t.Any = ..., *, out_ty: _t.Any = ..., operators: _t.Any = ...) -> _t.Any:
    r"""The call of a `kernel` that stores to some of the tensors `args`: output number i is what it makes of argument number `inplace_indices[i]`, or memory of its own where that is -1. The arguments themselves stay as they are."""
def ceil(data: _t.Any, /) -> _t.Any:
    r"""Rounds up; the identity on integers."""
def clip(x: _t.Any, min: _t.Any, max: _t.Any) -> _t.Any:
    r"""Elements below a_min become a_min, those above a_max (then) a_max; NaN stays NaN."""
def collapse_sum_like(data: _t.Any, collapse_target: _t.Any) -> _t.Any: ...
def collapse_sum_to(data: _t.Any, shape: _t.Any) -> _t.Any:
    r"""Sums over the axes that broadcasting from `shape` would have made or stretched."""
def concat(tensors: _t.Any, axis: _t.Any = ...) -> _t.Any: ...
def const(value: _t.Any, dtype: _t.Any = ...) -> _t.Any:
    r"""A constant: a number, a list of numbers, or an array. Floats are float32, integers int32."""
def constraint(a: _t.Any, b: _t.Any, what: _t.Any) -> _t.Any:
    r"""`a == b`, which `what` requires."""
def cos(data: _t.Any, /) -> _t.Any:
    r"""Cosine."""
def cosh(data: _t.Any, /) -> _t.Any:
    r"""Hyperbolic cosine."""
def cumprod(data: _t.Any, axis: _t.Any = ..., dtype: _t.Any = ..., exclusive: _t.Any = ...) -> _t.Any:
    r"""Running products along an axis, in order. 16-bit floats are accumulated in float32, integers wrap."""
def cumsum(data: _t.Any, axis: _t.Any = ..., dtype: _t.Any = ..., exclusive: _t.Any = ...) -> _t.Any:
    r"""Running sums along an axis, in order. 16-bit floats are accumulated in float32, integers wrap."""
def data_type(constructors: _t.Any, type_params: _t.Any = ..., *, name: _t.Any = ..., names: _t.Any = ..., bounds: _t.Any = ..., extern: _t.Any = ...) -> _t.Any:
    r"""The definition of a data type, in a module's class: `List = R.data_type({"Nil": (), "Cons": (…)}, (…))`."""
def dataflow() -> _t.ContextManager[_t.Any]:
    r"""A block of pure bindings."""
def dequantize(data: _t.Any, scale: _t.Any, zero_point: _t.Any, axis: _t.Any = ..., out_dtype: _t.Any = ...) -> _t.Any: ...
def divide(lhs: _t.Any, rhs: _t.Any, /) -> _t.Any:
    r"""a / b; integers are rounded towards zero, and division by zero gives 0."""
def dtype(name: _t.Any) -> _t.Any:
    r"""A dtype, as an attribute has it."""
def dynamic_strided_slice(x: _t.Any, begin: _t.Any, end: _t.Any, strides: _t.Any) -> _t.Any: ...
def einsum(operands: _t.Any, subscripts: _t.Any) -> _t.Any:
    r"""Einstein summation: products of the operands' elements, summed over the labels that the result lacks."""
def equal(lhs: _t.Any, rhs: _t.Any, /) -> _t.Any:
    r"""a == b."""
def erf(data: _t.Any, /) -> _t.Any:
    r"""The error function, 2/sqrt(pi) times the integral of exp(-t*t) from 0 to x."""
def ewise_fma(x1: _t.Any, x2: _t.Any, x3: _t.Any) -> _t.Any: ...
def exp(data: _t.Any, /) -> _t.Any:
    r"""e to the power x."""
def expand_dims(x: _t.Any, axis: _t.Any) -> _t.Any:
    r"""Inserts dims of extent 1."""
def eye(n: _t.Any, m: _t.Any = ..., k: _t.Any = ..., dtype: _t.Any = ...) -> _t.Any: ...
def eye_like(x: _t.Any, k: _t.Any = ..., dtype: _t.Any = ...) -> _t.Any: ...
def flatten(x: _t.Any) -> _t.Any: ...
def flip(data: _t.Any, axis: _t.Any) -> _t.Any: ...
def floor(data: _t.Any, /) -> _t.Any:
    r"""Rounds down; the identity on integers."""
def floor_divide(lhs: _t.Any, rhs: _t.Any, /) -> _t.Any:
    r"""a / b rounded down; integer division by zero gives 0."""
def floor_mod(lhs: _t.Any, rhs: _t.Any, /) -> _t.Any:
    r"""The remainder of a / b with the sign of b, exact on floats; 0 for integer division by zero."""
def full(shape: _t.Any, fill_value: _t.Any, dtype: _t.Any = ...) -> _t.Any:
    r"""A tensor filled with a scalar."""
def full_like(x: _t.Any, fill_value: _t.Any, dtype: _t.Any = ...) -> _t.Any: ...
def func_attr(attrs: _t.Any) -> _t.Any:
    r"""Attributes of the function."""
def function(function_: _t.Any = ..., **options: _t.Any) -> _t.Any:
    r"""`@R.function` above a function: a typed function of the graph. In a class, a function of its module."""
def gather_elements(data: _t.Any, indices: _t.Any, axis: _t.Any = ...) -> _t.Any: ...
def gather_nd(data: _t.Any, indices: _t.Any, batch_dims: _t.Any = ...) -> _t.Any: ...
def greater(lhs: _t.Any, rhs: _t.Any, /) -> _t.Any:
    r"""a > b."""
def greater_equal(lhs: _t.Any, rhs: _t.Any, /) -> _t.Any:
    r"""a >= b."""
class image:
    @staticmethod
    def resize1d(data: _t.Any, size: _t.Any, roi: _t.Any = ..., layout: _t.Any = ..., method: _t.Any = ..., coordinate_transformation_mode: _t.Any = ..., rounding_method: _t.Any = ..., cubic_alpha: _t.Any = ..., cubic_exclude: _t.Any = ..., extrapolation_value: _t.Any = ..., out_dtype: _t.Any = ...) -> _t.Any: ...
    @staticmethod
    def resize2d(data: _t.Any, size: _t.Any, roi: _t.Any = ..., layout: _t.Any = ..., method: _t.Any = ..., coordinate_transformation_mode: _t.Any = ..., rounding_method: _t.Any = ..., cubic_alpha: _t.Any = ..., cubic_exclude: _t.Any = ..., extrapolation_value: _t.Any = ..., out_dtype: _t.Any = ...) -> _t.Any: ...
    @staticmethod
    def resize3d(data: _t.Any, size: _t.Any, roi: _t.Any = ..., layout: _t.Any = ..., method: _t.Any = ..., coordinate_transformation_mode: _t.Any = ..., rounding_method: _t.Any = ..., cubic_alpha: _t.Any = ..., cubic_exclude: _t.Any = ..., extrapolation_value: _t.Any = ..., out_dtype: _t.Any = ...) -> _t.Any: ...
def index_put(data: _t.Any, indices: _t.Any, values: _t.Any, accumulate: _t.Any = ...) -> _t.Any:
    r"""`data` with `values` at the places that index tensors, which are broadcast, give."""
def index_tensor(data: _t.Any, indices: _t.Any) -> _t.Any:
    r"""data[i0, i1, …] of index tensors, which are broadcast."""
inf: _t.Any
def isfinite(data: _t.Any, /) -> _t.Any:
    r"""True where x is neither NaN nor infinite."""
def isinf(data: _t.Any, /) -> _t.Any:
    r"""True where x is +inf or -inf."""
def isnan(data: _t.Any, /) -> _t.Any:
    r"""True where x is NaN."""
def left_shift(lhs: _t.Any, rhs: _t.Any, /) -> _t.Any:
    r"""a << b, b modulo the width of the dtype."""
def less(lhs: _t.Any, rhs: _t.Any, /) -> _t.Any:
    r"""a < b."""
def less_equal(lhs: _t.Any, rhs: _t.Any, /) -> _t.Any:
    r"""a <= b."""
def let(value: _t.Any) -> _t.Any:
    r"""What is assigned this is bound, where assignments name nodes: in a function of the form "graph"."""
def linear(data: _t.Any, weight: _t.Any, bias: _t.Any = ..., out_dtype: _t.Any = ...) -> _t.Any: ...
def log(data: _t.Any, /) -> _t.Any:
    r"""Natural logarithm; -inf at 0, NaN below."""
def log_add_exp(x1: _t.Any, x2: _t.Any) -> _t.Any:
    r"""log(eˣ + eʸ), also of infinities: for equal operands the difference is not taken."""
def logical_and(lhs: _t.Any, rhs: _t.Any, /) -> _t.Any:
    r"""a and b, of bools."""
def logical_not(data: _t.Any, /) -> _t.Any:
    r"""Negation of a bool."""
def logical_or(lhs: _t.Any, rhs: _t.Any, /) -> _t.Any:
    r"""a or b, of bools."""
def logical_xor(lhs: _t.Any, rhs: _t.Any, /) -> _t.Any:
    r"""Either a or b, of bools."""
def match_cast(value: _t.Any, struct_info: _t.Any) -> _t.Any:
    r"""`value`, checked when it runs to have a type; dims that are new in it are bound."""
def matmul(x1: _t.Any, x2: _t.Any, out_dtype: _t.Any = ...) -> _t.Any:
    r"""NumPy's matmul: the last two dimensions are matrices, those before them broadcast."""
def max(x: _t.Any, axis: _t.Any = ..., keepdims: _t.Any = ...) -> _t.Any:
    r"""Largest element over axes; NaN wins."""
def maximum(lhs: _t.Any, rhs: _t.Any, /) -> _t.Any:
    r"""The larger of a and b; NaN if either is NaN."""
def mean(x: _t.Any, axis: _t.Any = ..., keepdims: _t.Any = ...) -> _t.Any:
    r"""Mean over axes; integers are rounded towards zero."""
def median(x: _t.Any, axis: _t.Any = ..., keepdims: _t.Any = ...) -> _t.Any:
    r"""The lower of the two elements in the middle; along one axis also where it is (int64)."""
def meshgrid(tensors: _t.Any, indexing: _t.Any = ...) -> _t.Any: ...
def meta(name: _t.Any) -> _t.Any:
    r"""The constant that has an array beside the text."""
def min(x: _t.Any, axis: _t.Any = ..., keepdims: _t.Any = ...) -> _t.Any:
    r"""Smallest element over axes; NaN wins."""
def minimum(lhs: _t.Any, rhs: _t.Any, /) -> _t.Any:
    r"""The smaller of a and b; NaN if either is NaN."""
def mod(lhs: _t.Any, rhs: _t.Any, /) -> _t.Any:
    r"""The remainder of a / b with the sign of a, exact on floats; 0 for integer division by zero."""
def multiply(lhs: _t.Any, rhs: _t.Any, /) -> _t.Any:
    r"""a * b."""
nan: _t.Any
def negative(data: _t.Any, /) -> _t.Any:
    r"""-x; on integers it wraps."""
class nn:
    @staticmethod
    def relu(data: _t.Any, /) -> _t.Any:
        r"""max(x, 0); NaN and -0 stay as they are."""
    @staticmethod
    def silu(data: _t.Any, /) -> _t.Any:
        r"""x·sigmoid(x); NaN at −∞."""
    @staticmethod
    def selu(data: _t.Any, /) -> _t.Any:
        r"""ELU with the constants of self-normalising networks: 1.0507·(x, or 1.67326·(eˣ − 1) below 0)."""
    @staticmethod
    def softplus(data: _t.Any, /) -> _t.Any:
        r"""log(1 + e^(beta·x))/beta."""
    @staticmethod
    def conv1d(data: _t.Any, weight: _t.Any, strides: _t.Any = ..., padding: _t.Any = ..., dilation: _t.Any = ..., groups: _t.Any = ..., data_layout: _t.Any = ..., kernel_layout: _t.Any = ..., out_layout: _t.Any = ..., out_dtype: _t.Any = ..., **more: _t.Any) -> _t.Any:
        r"""Convolution (cross-correlation) over W."""
    @staticmethod
    def conv2d(data: _t.Any, weight: _t.Any, strides: _t.Any = ..., padding: _t.Any = ..., dilation: _t.Any = ..., groups: _t.Any = ..., data_layout: _t.Any = ..., kernel_layout: _t.Any = ..., out_layout: _t.Any = ..., out_dtype: _t.Any = ..., **more: _t.Any) -> _t.Any:
        r"""Convolution (cross-correlation) over H, W."""
    @staticmethod
    def conv3d(data: _t.Any, weight: _t.Any, strides: _t.Any = ..., padding: _t.Any = ..., dilation: _t.Any = ..., groups: _t.Any = ..., data_layout: _t.Any = ..., kernel_layout: _t.Any = ..., out_layout: _t.Any = ..., out_dtype: _t.Any = ..., **more: _t.Any) -> _t.Any:
        r"""Convolution (cross-correlation) over D, H, W."""
    @staticmethod
    def conv1d_transpose(data: _t.Any, weight: _t.Any, strides: _t.Any = ..., padding: _t.Any = ..., dilation: _t.Any = ..., groups: _t.Any = ..., data_layout: _t.Any = ..., kernel_layout: _t.Any = ..., out_layout: _t.Any = ..., out_dtype: _t.Any = ..., **more: _t.Any) -> _t.Any:
        r"""Transposed convolution over W: the gradient of a convolution with respect to its data."""
    @staticmethod
    def conv2d_transpose(data: _t.Any, weight: _t.Any, strides: _t.Any = ..., padding: _t.Any = ..., dilation: _t.Any = ..., groups: _t.Any = ..., data_layout: _t.Any = ..., kernel_layout: _t.Any = ..., out_layout: _t.Any = ..., out_dtype: _t.Any = ..., **more: _t.Any) -> _t.Any:
        r"""Transposed convolution over H, W: the gradient of a convolution with respect to its data."""
    @staticmethod
    def conv3d_transpose(data: _t.Any, weight: _t.Any, strides: _t.Any = ..., padding: _t.Any = ..., dilation: _t.Any = ..., groups: _t.Any = ..., data_layout: _t.Any = ..., kernel_layout: _t.Any = ..., out_layout: _t.Any = ..., out_dtype: _t.Any = ..., **more: _t.Any) -> _t.Any:
        r"""Transposed convolution over D, H, W: the gradient of a convolution with respect to its data."""
    @staticmethod
    def max_pool1d(data: _t.Any, pool_size: _t.Any = ..., strides: _t.Any = ..., padding: _t.Any = ..., dilation: _t.Any = ..., ceil_mode: _t.Any = ..., count_include_pad: _t.Any = ..., layout: _t.Any = ..., out_layout: _t.Any = ...) -> _t.Any:
        r"""Maximum over sliding windows of `pool_size`, in one dimension."""
    @staticmethod
    def max_pool2d(data: _t.Any, pool_size: _t.Any = ..., strides: _t.Any = ..., padding: _t.Any = ..., dilation: _t.Any = ..., ceil_mode: _t.Any = ..., count_include_pad: _t.Any = ..., layout: _t.Any = ..., out_layout: _t.Any = ...) -> _t.Any:
        r"""Maximum over sliding windows of `pool_size`, in 2 dimensions."""
    @staticmethod
    def max_pool3d(data: _t.Any, pool_size: _t.Any = ..., strides: _t.Any = ..., padding: _t.Any = ..., dilation: _t.Any = ..., ceil_mode: _t.Any = ..., count_include_pad: _t.Any = ..., layout: _t.Any = ..., out_layout: _t.Any = ...) -> _t.Any:
        r"""Maximum over sliding windows of `pool_size`, in 3 dimensions."""
    @staticmethod
    def avg_pool1d(data: _t.Any, pool_size: _t.Any = ..., strides: _t.Any = ..., padding: _t.Any = ..., dilation: _t.Any = ..., ceil_mode: _t.Any = ..., count_include_pad: _t.Any = ..., layout: _t.Any = ..., out_layout: _t.Any = ...) -> _t.Any:
        r"""Average over sliding windows of `pool_size`, in one dimension."""
    @staticmethod
    def avg_pool2d(data: _t.Any, pool_size: _t.Any = ..., strides: _t.Any = ..., padding: _t.Any = ..., dilation: _t.Any = ..., ceil_mode: _t.Any = ..., count_include_pad: _t.Any = ..., layout: _t.Any = ..., out_layout: _t.Any = ...) -> _t.Any:
        r"""Average over sliding windows of `pool_size`, in 2 dimensions."""
    @staticmethod
    def avg_pool3d(data: _t.Any, pool_size: _t.Any = ..., strides: _t.Any = ..., padding: _t.Any = ..., dilation: _t.Any = ..., ceil_mode: _t.Any = ..., count_include_pad: _t.Any = ..., layout: _t.Any = ..., out_layout: _t.Any = ...) -> _t.Any:
        r"""Average over sliding windows of `pool_size`, in 3 dimensions."""
    @staticmethod
    def adaptive_max_pool1d(data: _t.Any, output_size: _t.Any = ..., layout: _t.Any = ..., out_layout: _t.Any = ...) -> _t.Any:
        r"""Maximum over the windows [⌊o·I/O⌋, ⌈(o+1)·I/O⌉) of each of 1 spatial dimensions: I the data's extent, O the result's, given by `output_size`. NaN in a window gives NaN."""
    @staticmethod
    def adaptive_max_pool2d(data: _t.Any, output_size: _t.Any = ..., layout: _t.Any = ..., out_layout: _t.Any = ...) -> _t.Any:
        r"""Maximum over the windows [⌊o·I/O⌋, ⌈(o+1)·I/O⌉) of each of 2 spatial dimensions: I the data's extent, O the result's, given by `output_size`. NaN in a window gives NaN."""
    @staticmethod
    def adaptive_max_pool3d(data: _t.Any, output_size: _t.Any = ..., layout: _t.Any = ..., out_layout: _t.Any = ...) -> _t.Any:
        r"""Maximum over the windows [⌊o·I/O⌋, ⌈(o+1)·I/O⌉) of each of 3 spatial dimensions: I the data's extent, O the result's, given by `output_size`. NaN in a window gives NaN."""
    @staticmethod
    def adaptive_avg_pool1d(data: _t.Any, output_size: _t.Any = ..., layout: _t.Any = ..., out_layout: _t.Any = ...) -> _t.Any:
        r"""Average over the windows [⌊o·I/O⌋, ⌈(o+1)·I/O⌉) of each of 1 spatial dimensions: I the data's extent, O the result's, given by `output_size`. Integer means round towards zero."""
    @staticmethod
    def adaptive_avg_pool2d(data: _t.Any, output_size: _t.Any = ..., layout: _t.Any = ..., out_layout: _t.Any = ...) -> _t.Any:
        r"""Average over the windows [⌊o·I/O⌋, ⌈(o+1)·I/O⌉) of each of 2 spatial dimensions: I the data's extent, O the result's, given by `output_size`. Integer means round towards zero."""
    @staticmethod
    def adaptive_avg_pool3d(data: _t.Any, output_size: _t.Any = ..., layout: _t.Any = ..., out_layout: _t.Any = ...) -> _t.Any:
        r"""Average over the windows [⌊o·I/O⌋, ⌈(o+1)·I/O⌉) of each of 3 spatial dimensions: I the data's extent, O the result's, given by `output_size`. Integer means round towards zero."""
    @staticmethod
    def softmax(data: _t.Any, axis: _t.Any = ...) -> _t.Any:
        r"""exp(x − max) / Σ exp(x − max) along `axis`; NaN for a row that holds NaN or +∞, or nothing but −∞."""
    @staticmethod
    def log_softmax(data: _t.Any, axis: _t.Any = ...) -> _t.Any:
        r"""x − max − log Σ exp(x − max) along `axis`: the logarithm of softmax."""
    @staticmethod
    def gelu(data: _t.Any) -> _t.Any:
        r"""x·Φ(x) with the normal distribution's Φ(x) = (1 + erf(x/√2))/2, or its tanh approximation."""
    @staticmethod
    def gelu_tanh(data: _t.Any) -> _t.Any: ...
    @staticmethod
    def leakyrelu(data: _t.Any, alpha: _t.Any = ...) -> _t.Any: ...
    @staticmethod
    def prelu(data: _t.Any, alpha: _t.Any, axis: _t.Any = ...) -> _t.Any:
        r"""x for x > 0, alpha·x below, with one slope for each index of dimension `axis`."""
    @staticmethod
    def dropout(data: _t.Any, rate: _t.Any = ...) -> _t.Any:
        r"""(data, mask): in inference nothing is dropped, so data is unchanged and the mask is all ones."""
    @staticmethod
    def layer_norm(data: _t.Any, gamma: _t.Any, beta: _t.Any, axes: _t.Any, epsilon: _t.Any = ..., center: _t.Any = ..., scale: _t.Any = ...) -> _t.Any:
        r"""(data − mean)/√(variance + epsilon) · gamma + beta, with the statistics of each row along `axis`."""
    @staticmethod
    def rms_norm(data: _t.Any, weight: _t.Any, axes: _t.Any = ..., epsilon: _t.Any = ...) -> _t.Any:
        r"""data/√(mean of data² + epsilon) · weight, the mean taken over `axes`, whose extents the weight has."""
    @staticmethod
    def batch_norm(data: _t.Any, gamma: _t.Any, beta: _t.Any, moving_mean: _t.Any, moving_var: _t.Any, axis: _t.Any, epsilon: _t.Any = ..., center: _t.Any = ..., scale: _t.Any = ..., momentum: _t.Any = ..., training: _t.Any = ...) -> _t.Any:
        r"""((data − moving_mean)/√(moving_var + epsilon) · gamma + beta, moving_mean, moving_var), as in inference."""
    @staticmethod
    def pad(data: _t.Any, pad_width: _t.Any, pad_value: _t.Any = ..., pad_mode: _t.Any = ...) -> _t.Any:
        r"""Adds elements around a tensor: `pad_value`, the nearest element (edge), or the mirrored tensor (reflect)."""
    @staticmethod
    def attention(query: _t.Any, key: _t.Any, value: _t.Any, bias: _t.Any = ..., scale: _t.Any = ..., **more: _t.Any) -> _t.Any:
        r"""Of (batch, positions, heads, width): softmax(q·kᵀ·scale + bias)·v."""
    @staticmethod
    def attention_bias(query: _t.Any, key: _t.Any, value: _t.Any, bias: _t.Any = ..., scale: _t.Any = ..., **more: _t.Any) -> _t.Any:
        r"""Of (batch, positions, heads, width): softmax(q·kᵀ·scale + bias)·v."""
    @staticmethod
    def relu6(data: _t.Any) -> _t.Any: ...
    @staticmethod
    def instance_norm(data: _t.Any, gamma: _t.Any, beta: _t.Any, channel_axis: _t.Any, axes: _t.Any, epsilon: _t.Any = ..., center: _t.Any = ..., scale: _t.Any = ...) -> _t.Any: ...
    @staticmethod
    def group_norm(data: _t.Any, gamma: _t.Any, beta: _t.Any, num_groups: _t.Any, channel_axis: _t.Any, axes: _t.Any, epsilon: _t.Any = ..., center: _t.Any = ..., scale: _t.Any = ...) -> _t.Any:
        r"""As nn.instance_norm, with the statistics of `num_groups` runs of neighbouring channels."""
    @staticmethod
    def cross_entropy_with_logits(predictions: _t.Any, labels: _t.Any) -> _t.Any:
        r"""-Σ predictions · labels, divided by the number of rows where there are rows."""
    @staticmethod
    def nll_loss(predictions: _t.Any, targets: _t.Any, weights: _t.Any = ..., reduction: _t.Any = ..., ignore_index: _t.Any = ...) -> _t.Any:
        r"""The operator's, with weights of 1 where there are none."""
    @staticmethod
    def batch_flatten(data: _t.Any) -> _t.Any: ...
    @staticmethod
    def pixel_shuffle(data: _t.Any, upscale_factor: _t.Any) -> _t.Any: ...
def nonzero(x: _t.Any) -> _t.Any: ...
def not_equal(lhs: _t.Any, rhs: _t.Any, /) -> _t.Any:
    r"""a != b."""
def one_hot(indices: _t.Any, on_value: _t.Any, off_value: _t.Any, depth: _t.Any, axis: _t.Any = ...) -> _t.Any: ...
def ones(shape: _t.Any, dtype: _t.Any = ...) -> _t.Any:
    r"""A tensor of ones; float32 unless `dtype` says otherwise."""
def ones_like(x: _t.Any, dtype: _t.Any = ...) -> _t.Any:
    r"""Ones in a tensor's shape and dtype."""
class op:
    def __class_getitem__(cls, name: str) -> _t.Any: ...
    abs: _t.Any
    acos: _t.Any
    acosh: _t.Any
    add: _t.Any
    adv_index: _t.Any
    all: _t.Any
    annotation: _t.Any
    any: _t.Any
    arange: _t.Any
    argmax: _t.Any
    argmin: _t.Any
    argsort: _t.Any
    argwhere: _t.Any
    argwhere_padded: _t.Any
    asin: _t.Any
    asinh: _t.Any
    atan: _t.Any
    atanh: _t.Any
    bitwise_and: _t.Any
    bitwise_not: _t.Any
    bitwise_or: _t.Any
    bitwise_xor: _t.Any
    broadcast_to: _t.Any
    broadcast_to_like: _t.Any
    call_te: _t.Any
    cast: _t.Any
    cast_like: _t.Any
    ceil: _t.Any
    clip: _t.Any
    collapse_sum_like: _t.Any
    collapse_sum_to: _t.Any
    concatenate: _t.Any
    contrib_reverse_reshape: _t.Any
    copy: _t.Any
    cos: _t.Any
    cosh: _t.Any
    cumprod: _t.Any
    cumsum: _t.Any
    device_copy: _t.Any
    dft: _t.Any
    divide: _t.Any
    dyn: _t.Any
    einsum: _t.Any
    equal: _t.Any
    erf: _t.Any
    exp: _t.Any
    expand_dims: _t.Any
    fast_erf: _t.Any
    fast_exp: _t.Any
    fast_tanh: _t.Any
    fixed_point_multiply: _t.Any
    fixed_point_multiply_per_axis: _t.Any
    floor: _t.Any
    floor_divide: _t.Any
    floor_mod: _t.Any
    full: _t.Any
    full_like: _t.Any
    gather: _t.Any
    gather_grad: _t.Any
    gather_nd: _t.Any
    gather_nd_grad: _t.Any
    greater: _t.Any
    greater_equal: _t.Any
    image: _t.Any
    invert_permutation: _t.Any
    isfinite: _t.Any
    isinf: _t.Any
    isnan: _t.Any
    layout_transform: _t.Any
    left_shift: _t.Any
    less: _t.Any
    less_equal: _t.Any
    linear_recurrence: _t.Any
    log: _t.Any
    log10: _t.Any
    log2: _t.Any
    logical_and: _t.Any
    logical_not: _t.Any
    logical_or: _t.Any
    logical_xor: _t.Any
    matmul: _t.Any
    matrix_set_diag: _t.Any
    max: _t.Any
    maximum: _t.Any
    mean: _t.Any
    meshgrid: _t.Any
    min: _t.Any
    minimum: _t.Any
    ml: _t.Any
    mod: _t.Any
    multiply: _t.Any
    ndarray_size: _t.Any
    negative: _t.Any
    nn: _t.Any
    not_equal: _t.Any
    on_device: _t.Any
    one_hot: _t.Any
    ones: _t.Any
    ones_like: _t.Any
    power: _t.Any
    prod: _t.Any
    qnn: _t.Any
    random: _t.Any
    rdft: _t.Any
    reinterpret: _t.Any
    repeat: _t.Any
    reshape: _t.Any
    reshape_like: _t.Any
    reverse: _t.Any
    reverse_sequence: _t.Any
    right_shift: _t.Any
    round: _t.Any
    rsqrt: _t.Any
    scan: _t.Any
    scatter_elements: _t.Any
    scatter_nd: _t.Any
    searchsorted: _t.Any
    sequence_mask: _t.Any
    shape_of: _t.Any
    sigmoid: _t.Any
    sign: _t.Any
    sin: _t.Any
    sinh: _t.Any
    slice_like: _t.Any
    sliding_window: _t.Any
    sort: _t.Any
    sparse_fill_empty_rows: _t.Any
    sparse_reshape: _t.Any
    sparse_to_dense: _t.Any
    split: _t.Any
    sqrt: _t.Any
    squeeze: _t.Any
    stack: _t.Any
    stft: _t.Any
    stop_gradient: _t.Any
    strided_set: _t.Any
    strided_slice: _t.Any
    strings: _t.Any
    subtract: _t.Any
    sum: _t.Any
    take: _t.Any
    take_grad: _t.Any
    tan: _t.Any
    tanh: _t.Any
    tile: _t.Any
    topk: _t.Any
    transpose: _t.Any
    trilu: _t.Any
    trunc: _t.Any
    trunc_divide: _t.Any
    trunc_mod: _t.Any
    unique: _t.Any
    unravel_index: _t.Any
    variance: _t.Any
    vision: _t.Any
    where: _t.Any
    zeros: _t.Any
    zeros_like: _t.Any
def outer(x1: _t.Any, x2: _t.Any) -> _t.Any: ...
def output(*results: _t.Any) -> _t.Any:
    r"""The results of a dataflow block."""
def partial(value: _t.Any) -> _t.Any:
    r"""What a match looks at that has no case for some values: `match R.partial(x):`."""
def permute_dims(x: _t.Any, axes: _t.Any = ...) -> _t.Any: ...
def power(lhs: _t.Any, rhs: _t.Any, /) -> _t.Any:
    r"""a to the power b. Integers wrap; a negative integer exponent gives 0 unless a is 1 or -1."""
def prim_value(value: _t.Any) -> _t.Any:
    r"""A scalar: int64, float64 or bool."""
def print(*values: _t.Any, format: _t.Any = ...) -> _t.Any:
    r"""Prints values."""
def prod(x: _t.Any, axis: _t.Any = ..., keepdims: _t.Any = ...) -> _t.Any:
    r"""Product over axes."""
def quantize(data: _t.Any, scale: _t.Any, zero_point: _t.Any, axis: _t.Any = ..., out_dtype: _t.Any = ...) -> _t.Any: ...
def ref(value: _t.Any) -> _t.Any:
    r"""A new cell that holds `value`."""
def ref_read(cell: _t.Any) -> _t.Any:
    r"""What a cell holds."""
def ref_write(cell: _t.Any, value: _t.Any) -> _t.Any:
    r"""Sets a cell; the result is the unit value."""
def repeat(data: _t.Any, repeats: _t.Any, axis: _t.Any = ...) -> _t.Any:
    r"""Repeats each element along an axis."""
def reshape(x: _t.Any, shape: _t.Any) -> _t.Any:
    r"""The same elements in row-major order, in another shape."""
def reverse_sequence(data: _t.Any, seq_lengths: _t.Any, seq_axis: _t.Any = ..., batch_axis: _t.Any = ...) -> _t.Any:
    r"""`data` with the first `seq_lengths[i]` elements along an axis in reverse order, in row i of another axis."""
def right_shift(lhs: _t.Any, rhs: _t.Any, /) -> _t.Any:
    r"""a >> b, b modulo the width of the dtype; the sign is kept."""
def round(data: _t.Any, /) -> _t.Any:
    r"""Rounds to the nearest integer, halves to the even one; the identity on integers."""
def rsqrt(data: _t.Any, /) -> _t.Any:
    r"""1 / sqrt(x)."""
def scatter_elements(data: _t.Any, indices: _t.Any, updates: _t.Any, axis: _t.Any = ..., reduction: _t.Any = ...) -> _t.Any: ...
def scatter_nd(data: _t.Any, indices: _t.Any, updates: _t.Any, reduction: _t.Any = ...) -> _t.Any: ...
def seq() -> _t.ContextManager[_t.Any]:
    r"""A block of bindings with one result, which `as` names: `with R.seq() as x:`."""
def shape(values: _t.Any) -> _t.Any:
    r"""Dims as a value."""
def shape_of(x: _t.Any) -> _t.Any: ...
def shape_to_tensor(expr: _t.Any) -> _t.Any:
    r"""The dims of a shape as a vector of int64."""
def sigmoid(data: _t.Any, /) -> _t.Any:
    r"""1 / (1 + exp(-x))."""
def sign(data: _t.Any, /) -> _t.Any:
    r"""-1, 0 or 1; NaN for NaN."""
def sin(data: _t.Any, /) -> _t.Any:
    r"""Sine."""
def sinh(data: _t.Any, /) -> _t.Any:
    r"""Hyperbolic sine."""
def size(x: _t.Any) -> _t.Any: ...
def slice_scatter(input_tensor: _t.Any, src: _t.Any, start: _t.Any, end: _t.Any, step: _t.Any, axis: _t.Any = ...) -> _t.Any:
    r"""A tensor with `src` where its slice [start:end:step] along an axis is."""
def sort(x: _t.Any, axis: _t.Any = ..., descending: _t.Any = ...) -> _t.Any:
    r"""data in ascending (or descending) order along `axis`; NaN is larger than everything."""
def split(x: _t.Any, indices_or_sections: _t.Any, axis: _t.Any = ...) -> _t.Any:
    r"""Parts of a tensor along an axis, as a tuple."""
def sqrt(data: _t.Any, /) -> _t.Any:
    r"""Square root; NaN below 0."""
def square(x: _t.Any) -> _t.Any: ...
def squeeze(x: _t.Any, axis: _t.Any = ...) -> _t.Any:
    r"""Drops dims of extent 1."""
def stack(tensors: _t.Any, axis: _t.Any = ...) -> _t.Any:
    r"""Tensors of one shape side by side along a new axis."""
def std(x: _t.Any, axis: _t.Any = ..., keepdims: _t.Any = ...) -> _t.Any: ...
def strided_slice(x: _t.Any, axes: _t.Any, begin: _t.Any, end: _t.Any, strides: _t.Any = ..., assume_inbound: _t.Any = ...) -> _t.Any:
    r"""A rectangular part of a tensor, with steps."""
def subtract(lhs: _t.Any, rhs: _t.Any, /) -> _t.Any:
    r"""a - b."""
def sum(x: _t.Any, axis: _t.Any = ..., keepdims: _t.Any = ...) -> _t.Any:
    r"""Sum over axes."""
def take(x: _t.Any, indices: _t.Any, axis: _t.Any = ..., mode: _t.Any = ...) -> _t.Any:
    r"""The elements of data at `indices` along `axis`: result[…, i…, …] = data[…, indices[i…], …]."""
def tan(data: _t.Any, /) -> _t.Any:
    r"""Tangent."""
def tanh(data: _t.Any, /) -> _t.Any:
    r"""Hyperbolic tangent."""
def tensor_to_shape(expr: _t.Any) -> _t.Any:
    r"""The shape whose dims a vector of int64 holds: `R.match_cast` gives them names."""
def tile(data: _t.Any, repeats: _t.Any) -> _t.Any:
    r"""Repeats the whole tensor along each dim."""
def topk(data: _t.Any, k: _t.Any = ..., axis: _t.Any = ..., ret_type: _t.Any = ..., largest: _t.Any = ..., dtype: _t.Any = ...) -> _t.Any:
    r"""The `k` largest (or with `is_ascend` smallest) elements along `axis`, sorted, and their subscripts."""
def tril(x: _t.Any, k: _t.Any = ...) -> _t.Any: ...
def triu(x: _t.Any, k: _t.Any = ...) -> _t.Any: ...
def trunc(data: _t.Any, /) -> _t.Any:
    r"""Rounds towards zero; the identity on integers."""
def tuple(*fields: _t.Any) -> _t.Any:
    r"""A tuple of values."""
def type(form: _t.Any) -> _t.Any:
    r"""The type that an annotation stands for."""
def unique(x: _t.Any, sorted: _t.Any = ..., return_index: _t.Any = ..., return_inverse: _t.Any = ..., return_counts: _t.Any = ..., axis: _t.Any = ...) -> _t.Any:
    r"""The different elements, and where asked the first place, the number and the count of each, of int64."""
def variance(x: _t.Any, axis: _t.Any = ..., keepdims: _t.Any = ...) -> _t.Any: ...
class vision:
    @staticmethod
    def all_class_non_max_suppression(boxes: _t.Any, scores: _t.Any, max_output_boxes_per_class: _t.Any, iou_threshold: _t.Any, score_threshold: _t.Any, output_format: _t.Any = ...) -> _t.Any:
        r"""(rows, [n]): (batch, class, box) of the n boxes that are kept, class by class, the highest score first, then rows of zeros."""
def where(condition: _t.Any, x: _t.Any, y: _t.Any, /) -> _t.Any:
    r"""x where the condition holds, else y; all three are broadcast."""
def zeros(shape: _t.Any, dtype: _t.Any = ...) -> _t.Any:
    r"""A tensor of zeros; float32 unless `dtype` says otherwise."""
def zeros_like(x: _t.Any, dtype: _t.Any = ...) -> _t.Any:
    r"""Zeros in a tensor's shape and dtype."""
