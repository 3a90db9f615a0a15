# Builds the same addon as CMakeLists.txt on machines without CMake. The sources come from native/sources.json. gyp knows flags
# for a target only, not for a file, so the kernels of each instruction set are a static library here; `npm run ci`
# checks that none is missing. scripts/build-addon.mjs runs this. A release has it in native/: package managers take a
# binding.gyp at the top for an install script.
{
  'variables': {
    'cxx_flags': [
      '-std=c++20', '-O3', '-ffp-contract=off', '-fvisibility=hidden', '-fvisibility-inlines-hidden', '-Wall', '-Wextra',
    ],
  },
  'target_defaults': {
    'include_dirs': ['native'],
    'cflags': ['-pthread'],
    'cflags_cc': ['<@(cxx_flags)'],
    'ldflags': ['-pthread'],
    'xcode_settings': {
      'CLANG_CXX_LANGUAGE_STANDARD': 'c++20',
      'CLANG_CXX_LIBRARY': 'libc++',
      'GCC_ENABLE_CPP_EXCEPTIONS': 'YES',
      'GCC_OPTIMIZATION_LEVEL': '3',
      'GCC_SYMBOLS_PRIVATE_EXTERN': 'YES',
      'MACOSX_DEPLOYMENT_TARGET': '11.0',
      'OTHER_CPLUSPLUSFLAGS': ['<@(cxx_flags)'],
    },
  },
  'targets': [
    {
      'target_name': 'collapsar',
      'sources': ['<!@(node native/list_sources.cjs node)'],
      'include_dirs': ['<!(node -p "require(\'node-addon-api\').include_dir")'],
      'defines': ['NAPI_VERSION=8', 'NAPI_CPP_EXCEPTIONS'],
      'dependencies': ['engine', 'simd_baseline'],
      'ldflags': ['-Wl,--version-script=../native/node/exports.map'],
      'xcode_settings': {'OTHER_LDFLAGS': ['-Wl,-exported_symbol,_napi_register_module_v1']},
      'conditions': [
        ['target_arch=="x64"', {'dependencies': ['simd_avx2', 'simd_avx512']}],
        ['target_arch=="arm64"', {'dependencies': ['simd_neon']}],
      ],
    },
    {
      'target_name': 'engine',
      'type': 'static_library',
      'sources': ['<!@(node native/list_sources.cjs engine)'],
    },
    {
      'target_name': 'simd_baseline',
      'type': 'static_library',
      'sources': ['<!@(node native/list_sources.cjs simd baseline)'],
      'variables': {'isa_flags': ['<!@(node native/list_sources.cjs flags baseline)']},
      'cflags_cc': ['<@(isa_flags)'],
      'xcode_settings': {'OTHER_CPLUSPLUSFLAGS': ['<@(isa_flags)']},
    },
  ],
  'conditions': [
    ['target_arch=="x64"', {
      'targets': [
        {
          'target_name': 'simd_avx2',
          'type': 'static_library',
          'sources': ['<!@(node native/list_sources.cjs simd avx2)'],
          'variables': {'isa_flags': ['<!@(node native/list_sources.cjs flags avx2)']},
          'cflags_cc': ['<@(isa_flags)'],
          'xcode_settings': {'OTHER_CPLUSPLUSFLAGS': ['<@(isa_flags)']},
        },
        {
          'target_name': 'simd_avx512',
          'type': 'static_library',
          'sources': ['<!@(node native/list_sources.cjs simd avx512)'],
          'variables': {'isa_flags': ['<!@(node native/list_sources.cjs flags avx512)']},
          'cflags_cc': ['<@(isa_flags)'],
          'xcode_settings': {'OTHER_CPLUSPLUSFLAGS': ['<@(isa_flags)']},
        },
      ],
    }],
    ['target_arch=="arm64"', {
      'targets': [
        {
          'target_name': 'simd_neon',
          'type': 'static_library',
          'sources': ['<!@(node native/list_sources.cjs simd neon)'],
          'variables': {'isa_flags': ['<!@(node native/list_sources.cjs flags neon)']},
          'cflags_cc': ['<@(isa_flags)'],
          'xcode_settings': {'OTHER_CPLUSPLUSFLAGS': ['<@(isa_flags)']},
        },
      ],
    }],
  ],
}
